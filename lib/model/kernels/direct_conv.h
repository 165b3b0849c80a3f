// Convolutions in bfloat16 on CPUs with AMX, as sums of matrix products: one product for each tap
// of the kernel and each row of pixels. For images of more than 64 pixels LibTorch computes the
// result and the gradient of the input.
#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// Returns whether direct_conv() supports these arguments, and is faster with them than LibTorch's
// convolution.
bool direct_conv_fits(const at::Tensor& x, const at::Tensor& kernel, at::ScalarType type);

// Returns the convolution of x (n, in, h, w) with kernel (k, k, in, out) plus bias (out, or
// undefined), with stride 1 and SAME padding: (n, out, h, w), bfloat16, channels_last. k is odd. x
// and kernel may have another type and are rounded to bfloat16. Sums are float32. LibTorch rounds
// the bias too.
at::Tensor direct_conv(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias);

}  // namespace bv
