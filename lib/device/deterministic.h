// The key `deterministic`: whether results on CUDA devices repeat bit for bit. On CPUs they always
// do.
#pragma once

namespace bv {

// Tells LibTorch which algorithms it may choose on CUDA devices. With `on`, it chooses only
// algorithms whose results repeat. These are cuDNN's deterministic convolutions, attention kernels
// other than cuDNN's, whose backward adds in any order, and NCCL without NVLS. An operator that has
// no such algorithm warns; require_deterministic_backward() makes it throw instead. Without `on`,
// LibTorch may choose the fastest, and cuDNN times its algorithms at each new shape. Make the last
// call before the first collective.
void set_deterministic(bool on);

}  // namespace bv
