// Convolutions in bfloat16 on CPUs with AMX, as sums of matrix products: one product for each tap
// of the kernel and each row of pixels. For images of more than 64 pixels LibTorch computes the
// result and the gradient of the input.
#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// Returns whether direct_conv() supports these arguments, and is faster with them than LibTorch's
// convolution.
bool direct_conv_fits(const at::Tensor& x, const at::Tensor& kernel, at::ScalarType type);

// Returns the convolution of x (n, in, h, w) with kernel (k, k, in, out), plus bias (out) if it is
// defined. The stride is 1, the padding SAME, and k odd. The result is (n, out, h, w), bfloat16 and
// channels_last. x and kernel are rounded to bfloat16 if they have another type. Sums are float32.
// Where LibTorch computes the result, it rounds the bias too.
at::Tensor direct_conv(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias);

}  // namespace bv
