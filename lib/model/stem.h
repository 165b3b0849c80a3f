#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// Whether stem() takes these: a 3x3 kernel on 1 or 3 channels, a multiple of 16 outputs, on a CPU,
// and no gradient wanted for x.
bool stem_fits(const at::Tensor& x, const at::Tensor& kernel);

// avg_pool2d(relu(conv2d(x, kernel, bias)), 2), padding SAME, without ever writing the
// convolution's output, which for few input channels costs more than computing it. x (n, c, h, w),
// kernel (3, 3, c, out), bias (out), all float32. x and kernel are rounded to `type` (float32 or
// bfloat16), sums are float32, the result is (n, out, h/2, w/2) of `type`.
at::Tensor stem(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias,
                at::ScalarType type);

}  // namespace bv
