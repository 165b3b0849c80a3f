#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// Returns the convolution of x (n, in, h, w), bfloat16 on a CPU, with weight (out, in, k, k) plus
// bias (out), if it is defined; weight and bias have any type. stride and padding are (rows,
// columns). It computes in float32 and rounds the result, and each gradient to the type of its
// operand.
at::Tensor conv2d_in_float32(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                             at::IntArrayRef stride, at::IntArrayRef padding);

}  // namespace bv
