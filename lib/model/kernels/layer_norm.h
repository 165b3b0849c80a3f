#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace bv {

// Returns (x - mean) / sqrt(var + eps) * scale + bias (Ba et al. 2016, "Layer Normalization") in
// `type`, float32 or bfloat16. x is (..., features), float32 or bfloat16; scale and bias are
// (features) float32. Computes in float32 and rounds once, to `type`. One kernel does this on a CPU
// if features is a multiple of 16, and on a CUDA device if it is a multiple of 4 and at most 2048.
// The kernel takes the gradient in `type`, so a matmul in bfloat16 needs no conversions. Its
// results do not depend on the number of threads. For other sizes LibTorch's kernel runs.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& bias,
                      double eps, at::ScalarType type);

// Adds a residual branch and normalizes: returns {s, layer_norm(s)} with s = x + branch. x and
// branch have the same shape. s has the type of LibTorch's x + branch. One kernel does both if it
// supports this size: on a CUDA device if s has the type of x, and on a CPU if x is float32 and
// both are contiguous.
std::pair<at::Tensor, at::Tensor> add_layer_norm(const at::Tensor& x, const at::Tensor& branch,
                                                 const at::Tensor& scale, const at::Tensor& bias,
                                                 double eps, at::ScalarType type);

}  // namespace bv
