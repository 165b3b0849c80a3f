// Layer normalization on CUDA devices. lib/model/kernels/layer_norm.h chooses it.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>

namespace bv {

// Whether device_layer_norm() supports these. False with plain_kernels().
bool device_layer_norm_fits(const at::Tensor& x, const std::optional<at::Tensor>& branch,
                            const at::Tensor& scale, const at::Tensor& bias);

// Returns {s, layer_norm(s)}. s is x + branch in the type of x; without a branch it is x. One
// kernel reads and writes everything once. In backward one kernel adds the gradients of s and
// converts them to the type of the branch. A second one sums the gradients of scale and bias, in a
// fixed order.
std::pair<at::Tensor, at::Tensor> device_layer_norm(const at::Tensor& x,
                                                    const std::optional<at::Tensor>& branch,
                                                    const at::Tensor& scale, const at::Tensor& bias,
                                                    double eps, at::ScalarType type);

}  // namespace bv
