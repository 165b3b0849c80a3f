// The key `deterministic`: whether results on CUDA devices are reproducible bit for bit. On CPUs
// they always are.
#pragma once

namespace bv {

// Tells LibTorch which algorithms it may choose on CUDA devices. If `on` is true, it
// chooses only deterministic algorithms, whose results are bit-identical in each run:
//   - cuDNN's deterministic convolutions;
//   - attention by LibTorch's kernels, because cuDNN's backward sums in any order;
//   - NCCL without NVLS.
// An operator without a deterministic algorithm warns; require_deterministic_backward() makes it
// throw instead. If `on` is false, LibTorch chooses the fastest algorithms, and cuDNN times its own
// at each new shape. Make the last call before the first collective.
void set_deterministic(bool on);

}  // namespace bv
