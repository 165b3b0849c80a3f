#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// Returns x weight^T + bias, as at::linear(): x (..., in), weight (out, in), bias (out), all of one
// type. For float32 on a CPU it takes the faster of LibTorch's libraries
// (lib/model/kernels/float_products.h).
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// Computes linear() with oneDNN, whatever the size. All tensors must be float32 on a CPU. Throws
// c10::Error if LibTorch was built without oneDNN.
at::Tensor linear_by_onednn(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// The same for x in bfloat16 on a CPU, with weight and bias in float32. It computes in float32 and
// rounds only the result and the gradient of x to bfloat16.
at::Tensor linear_in_float32(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace bv
