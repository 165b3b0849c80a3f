#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// Returns avg_pool2d(relu(x), 2) of x (n, c, h, w), float32 or bfloat16. If x is channels_last and
// c is a multiple of 16, one kernel does this, on CPUs and on CUDA devices: forward and backward
// read memory once each, and only one byte per output is kept for backward. The results equal those
// of LibTorch's operators.
at::Tensor relu_avg_pool(const at::Tensor& x);

}  // namespace bv
