// Group normalization on CUDA devices, for group_norm.cc, which says what it computes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "lib/model/kernels/device/group_norm_pass.h"

namespace bv {

// Whether the kernels are correct on `device`; see lib/model/kernels/device/device_check.h.
bool cuda_group_norm_is_right(c10::Device device);

// Returns {y, y rounded to bfloat16} if `rounded` is at::kBFloat16, which only add_relu allows, and
// otherwise {y, y}. y is what fused_group_norm() returns.
std::pair<at::Tensor, at::Tensor> cuda_group_norm(const at::Tensor& x, int64_t groups,
                                                  const at::Tensor& scale, const at::Tensor& bias,
                                                  double eps, NormTail tail, at::ScalarType type,
                                                  const std::optional<at::Tensor>& shortcut,
                                                  at::ScalarType rounded);

}  // namespace bv
