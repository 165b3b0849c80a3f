#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// Returns (x - mean) / sqrt(var + eps) * scale + bias (Ba et al. 2016, "Layer Normalization") in
// `type`, float32 or bfloat16. x is (..., features) float32; scale and bias are (features) float32.
// It is computed in float32. On a CPU the result is rounded to `type` where it is computed, and the
// gradient is read in it, so a matmul in bfloat16 needs no conversions; this takes features that
// are a multiple of 16. The result does not depend on the number of threads.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& bias,
                      double eps, at::ScalarType type);

}  // namespace bv
