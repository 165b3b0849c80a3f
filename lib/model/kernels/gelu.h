#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// Returns 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), flax's nn.gelu (Hendrycks and Gimpel
// 2016, "Gaussian error linear units"), for x of any shape and in the type of x. On a CPU, forward
// and backward of float32 and bfloat16 take a third of the time of at::gelu().
at::Tensor tanh_gelu(const at::Tensor& x);

}  // namespace bv
