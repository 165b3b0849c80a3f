#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// avg_pool2d(relu(x), 2) of (n, c, h, w), float32 or bfloat16: the same numbers in one pass each
// way, keeping one byte per output for backward instead of two activations.
at::Tensor relu_avg_pool(const at::Tensor& x);

}  // namespace bv
