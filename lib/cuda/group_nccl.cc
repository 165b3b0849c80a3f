// Makes the NCCL backend of c10d for Group (lib/distributed/nccl_impl.h).
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <chrono>
#include <cstdlib>

#include "lib/cuda/export.h"
#include "lib/distributed/nccl_impl.h"

BV_EXPORT void bvtrain_cuda_nccl(const c10::intrusive_ptr<c10d::Store>& keys, int rank, int size,
                                 int device, c10::intrusive_ptr<c10d::Backend>& backend) {
  // NCCL's own watchdog would end the process with an error that names no rank. Watch in
  // lib/distributed finds failed ranks instead, from heartbeats and from the control word that
  // every step waits for.
  ::setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", /*overwrite=*/0);
  ::setenv("TORCH_NCCL_ENABLE_MONITORING", "0", /*overwrite=*/0);
  const auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
  options->timeout = std::chrono::hours(24 * 30);
  const auto nccl = c10::make_intrusive<c10d::ProcessGroupNCCL>(
      c10::make_intrusive<c10d::PrefixStore>("nccl", keys), rank, size, options);
  nccl->setBoundDeviceId(at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device)));
  backend = nccl;
}
