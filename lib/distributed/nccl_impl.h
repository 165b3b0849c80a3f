// What the CUDA plug-in gives a Group: c10d's NCCL backend.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace bv {

// bvtrain_cuda_nccl: `backend` becomes this rank's, on CUDA device `device`. Its keys lie below
// "nccl" of `keys`. It never gives a collective up by itself.
using MakeNccl = void(const c10::intrusive_ptr<c10d::Store>& keys, int rank, int size, int device,
                      c10::intrusive_ptr<c10d::Backend>& backend);

}  // namespace bv
