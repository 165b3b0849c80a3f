#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// Returns x weight^T + bias, as at::linear(): x (..., in), weight (out, in), bias (out).
//
// For float32 on a CPU at::linear() calls MKL. On AMD's processors oneDNN, which LibTorch also
// contains, is faster: 2.2 times with AVX-512, 1.2 times with AVX2. So forward and backward use it
// there, except for small products: each call of oneDNN has an overhead of some 10 us.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// Computes linear() with oneDNN, whatever the size. All tensors must be float32 on a CPU. Throws
// c10::Error if LibTorch was built without oneDNN.
at::Tensor linear_by_onednn(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace bv
