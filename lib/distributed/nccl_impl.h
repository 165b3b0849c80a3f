// What the CUDA plug-in (lib/cuda) provides for Group: the NCCL backend of c10d.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace bv {

// Type of bvtrain_cuda_nccl. It sets `backend` to the NCCL backend of rank `rank` of `size` on CUDA
// device `device`. The ranks find each other through `keys`, below the prefix "nccl". After
// set_nccl_environment() the backend never aborts a collective by itself.
using MakeNccl = void(const c10::intrusive_ptr<c10d::Store>& keys, int rank, int size, int device,
                      c10::intrusive_ptr<c10d::Backend>& backend);

}  // namespace bv
