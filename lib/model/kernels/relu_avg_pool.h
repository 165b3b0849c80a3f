#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// Returns avg_pool2d(relu(x), 2) of x (n, c, h, w). Where the CPU kernel fits (float32 or bfloat16,
// channels_last, c a multiple of 16), forward and backward read memory once each, and only one byte
// per output is kept for backward. The numbers are the same.
at::Tensor relu_avg_pool(const at::Tensor& x);

}  // namespace bv
