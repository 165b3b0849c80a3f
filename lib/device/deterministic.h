// The key `deterministic`: whether results on CUDA devices repeat bit for bit. On CPUs they always
// do.
#pragma once

namespace bv {

// Tells LibTorch which algorithms it may choose on CUDA devices. With `on`, those whose results
// repeat: cuDNN's deterministic convolutions, attention without cuDNN's kernels, whose backward
// adds in any order, and NCCL without NVLS. An operator that has no such algorithm warns;
// require_deterministic_backward() makes one throw instead. Without `on`, the fastest: cuDNN
// measures its algorithms at each new shape. Call it with its last value before the first
// collective.
void set_deterministic(bool on);

}  // namespace bv
