// Products of float32 matrices on a CPU.
//
// LibTorch's own products call MKL. On AMD's processors oneDNN, which LibTorch also contains, is
// faster: 2.2 times with AVX-512, 1.2 times with AVX2. There it computes all but small products:
// each call of oneDNN has an overhead of some 10 us.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace bv {

// Returns x weight^T + bias; x (n, in), weight (out, in), bias (out). x and weight may have any
// strides.
at::Tensor float_product(const at::Tensor& x, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias = std::nullopt);

// Returns the gradient grad^T x of `weight` (out, in); grad (n, out), x (n, in), with any strides.
// MKL writes it into the memory of new_gradient() (lib/model/gradient_memory.h).
at::Tensor float_weight_gradient(const at::Tensor& grad, const at::Tensor& x,
                                 const at::Tensor& weight);

// onednn_product() returns x weight^T + bias, also in bfloat16 if all are;
// onednn_transposed_product() returns left^T right.
// Both call oneDNN for every size and on every CPU. They throw c10::Error if LibTorch lacks oneDNN.
at::Tensor onednn_product(const at::Tensor& x, const at::Tensor& weight,
                          const std::optional<at::Tensor>& bias = std::nullopt);
at::Tensor onednn_transposed_product(const at::Tensor& left, const at::Tensor& right);

// Whether LibTorch was built with oneDNN.
bool has_onednn();

// Whether oneDNN computes products of that many multiply-accumulates on this CPU.
bool prefers_onednn(int64_t macs);

}  // namespace bv
