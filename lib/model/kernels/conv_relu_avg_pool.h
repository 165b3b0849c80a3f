// The first layer of small convolutional networks in one CPU kernel. With few input channels,
// writing the output of the convolution would cost more than computing it; this kernel writes only
// the pooled result.
#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// Returns whether conv_relu_avg_pool() supports these arguments: a 3x3 kernel with 1 or 3 input
// channels and a multiple of 16 outputs, and x on the CPU without a gradient.
bool conv_relu_avg_pool_fits(const at::Tensor& x, const at::Tensor& kernel);

// Returns avg_pool2d(relu(conv2d(x, kernel, bias)), 2) with SAME padding for x (n, c, h, w), kernel
// (3, 3, c, out) and bias (out), all float32. x and kernel are rounded to `type` (float32 or
// bfloat16), sums are float32, and the result (n, out, h / 2, w / 2) has `type`.
at::Tensor conv_relu_avg_pool(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias,
                              at::ScalarType type);

}  // namespace bv
