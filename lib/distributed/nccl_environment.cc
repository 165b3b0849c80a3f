#include "lib/distributed/nccl_environment.h"

#include <cstdlib>
#include <initializer_list>

namespace bv {

void set_nccl_environment() {
  // c10d's watchdog thread must not end the process: its messages name no rank. It must not wait
  // for a dump either: while it waits, it holds the lock that collectives need. Instead, Watch
  // detects failed ranks, by heartbeats and by the control word that every step waits for. torchrun
  // sets the first variable to 1 in all of its processes.
  ::setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", /*overwrite=*/1);
  for (const char* name : {"TORCH_NCCL_ENABLE_MONITORING", "TORCH_NCCL_RETHROW_CUDA_ERRORS",
                           "TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"})
    ::setenv(name, "0", /*overwrite=*/0);
  // By default NCCL registers the buffers of a graph's collectives with the network. A large gather
  // after a small sum can then hang across hosts (NVIDIA/nccl issue 2389), and a rank that cannot
  // capture its graph leaves the others waiting inside NCCL.
  ::setenv("NCCL_GRAPH_REGISTER", "0", /*overwrite=*/0);
}

}  // namespace bv
