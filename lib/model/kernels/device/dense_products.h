// The products of a dense layer, y = x weight^T + bias, on a CUDA device. Each is one product of
// lib/model/kernels/device/device_product.h; where the device's library does not have it,
// LibTorch's operators compute the same.
//
// All matrices are contiguous, begin at multiples of 16 bytes, and are bfloat16 unless a comment
// says otherwise: x (n, in), weight (out, in), y (n, out). `in` and `out` are multiples of 8.
#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// Returns x weight^T + bias; bias (out).
at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// Returns tanh_gelu(x weight^T + bias). If `before` is not null, it becomes the input of GELU.
at::Tensor gelu_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        at::Tensor* before);

// Returns the gradient of x; grad (n, out) is that of y.
at::Tensor input_gradient(const at::Tensor& grad, const at::Tensor& weight);

// For x = tanh_gelu(before), returns the gradient of `before`. If `sum` is not null, it becomes the
// sum over the rows of the result, (in), float32 or bfloat16.
at::Tensor gelu_input_gradient(const at::Tensor& grad, const at::Tensor& weight,
                               const at::Tensor& before, at::Tensor* sum);

// Returns the gradient of `weight`, float32. If `sum` is not null, it becomes the gradient of the
// bias, (out), float32.
at::Tensor weight_gradient(const at::Tensor& grad, const at::Tensor& x, at::Tensor* sum);

// Returns the sum of the rows of a matrix, float32.
at::Tensor sum_of_rows(const at::Tensor& matrix);

}  // namespace bv
