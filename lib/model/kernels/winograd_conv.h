// 3x3 convolutions on the CPU in 16 / 36 of the multiplications: F(2x2, 3x3) of A. Lavin, S. Gray,
// "Fast Algorithms for Convolutional Neural Networks" (2015).
#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// Returns whether winograd_conv() supports these arguments, and is faster with them than LibTorch's
// convolution.
bool winograd_conv_fits(const at::Tensor& x, const at::Tensor& kernel, at::ScalarType type);

// Returns the convolution of x (n, in, h, w) with kernel (3, 3, in, out) plus bias (out, or
// undefined), with stride 1 and SAME padding: (n, out, h, w) of `type`, float32 or bfloat16,
// channels_last. x may have another type and is rounded to `type`. Sums are float32. In bfloat16
// the kernel and the transforms of both are rounded too, so the result's error is about twice that
// of a convolution that rounds only its result. Where bf16 is multiplied in float32
// (lib/device/cpu_bf16.h), only x and the result are rounded.
at::Tensor winograd_conv(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias,
                         at::ScalarType type);

}  // namespace bv
