#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// Returns (x - mean) / sqrt(var + eps) * scale + bias (Ba et al. 2016, "Layer Normalization") in
// `type`, float32 or bfloat16. x is (..., features), float32 or bfloat16; scale and bias are
// (features) float32. Computes in float32 and rounds once, to `type`. On a CPU, if features is a
// multiple of 16, one kernel does this and takes the gradient in `type`, so a matmul in bfloat16
// needs no conversions; its results do not depend on the number of threads. Everything else takes
// LibTorch's kernel.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& bias,
                      double eps, at::ScalarType type);

}  // namespace bv
