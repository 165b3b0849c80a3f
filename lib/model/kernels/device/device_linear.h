// Dense layers on CUDA devices in bfloat16. One product computes what takes LibTorch several
// kernels: bias and GELU with the forward product, the gradients of GELU and of a bias with the
// backward ones. A product writes the gradient of a weight in float32, so it is not rounded to
// bfloat16.
#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// Whether device_linear() can compute this product: x (..., in) and a float32 kernel (in, out) are
// on a CUDA device, the sizes suit the library, and plain_kernels() is not set.
bool fits_device_linear(const at::Tensor& x, const at::Tensor& kernel);

// Returns x times `kernel` plus `bias`: (..., out). x (..., in) and the result are bfloat16.
// `kernel` (in, out) and `bias` (out) are float32, and so are their gradients; the product gets
// them rounded to bfloat16. A kernel should be stored as (out, in), as models do.
at::Tensor device_linear(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias);

// Returns device_linear(tanh_gelu(device_linear(x, kernel1, bias1)), kernel2, bias2). Both layers
// must fit. In training (`train`) the result is bit-identical with and without gradients, as
// recomputation in backward requires; in evaluation it may not be.
at::Tensor device_mlp(const at::Tensor& x, const at::Tensor& kernel1, const at::Tensor& bias1,
                      const at::Tensor& kernel2, const at::Tensor& bias2, bool train);

}  // namespace bv
