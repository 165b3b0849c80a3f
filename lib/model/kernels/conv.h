// The convolutions for which bvtrain has its own CPU kernels: direct_conv.h and winograd_conv.h.
#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// Returns whether own_conv() supports these arguments, and is faster with them than LibTorch's
// convolution.
bool own_conv_fits(const at::Tensor& x, const at::Tensor& kernel, at::ScalarType type);

// Returns the convolution of x (n, in, h, w) with kernel (k, k, in, out), plus bias (out) if it is
// defined. The stride is 1 and the padding SAME. The result is (n, out, h, w), of the type `type`,
// and channels_last.
at::Tensor own_conv(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias,
                    at::ScalarType type);

}  // namespace bv
