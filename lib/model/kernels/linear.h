#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// Returns x weight^T + bias, as at::linear(): x (..., in), weight (out, in), bias (out), all of one
// type. For float32 on a CPU it takes the faster of LibTorch's libraries
// (lib/model/kernels/float_products.h).
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// The same for x in float32 or bfloat16 on a CPU, with weight and bias in float32. It computes in
// float32. With x in bfloat16 it rounds the result and the gradient of x, and nothing else.
at::Tensor linear_in_float32(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// The same in bfloat16: x, weight and bias are rounded, and so are the result and the gradients of
// x and the weight, but not the gradient of the bias. oneDNN sums in float32.
at::Tensor linear_in_bf16(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);
// Returns whether to call linear_in_bf16() for x: if it is not empty, and on a CPU that multiplies
// bf16 fast.
bool fits_linear_in_bf16(const at::Tensor& x);

}  // namespace bv
