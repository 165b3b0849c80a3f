// Kernels of group normalization for CPUs and CUDA devices. The layer is
// lib/model/layers/group_norm.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "lib/model/kernels/device/group_norm_pass.h"

namespace bv {

// Returns whether fused_group_norm() supports x: (n, c, h, w) on a CPU or a CUDA device, float32 or
// bfloat16, channels_last, c a multiple of 16. False with plain_kernels().
bool group_norm_fits(const at::Tensor& x);

// Normalizes x over h, w and the channels of a group (Wu and He 2018, "Group Normalization"),
// multiplies by `scale`, adds `bias`, both (c) float32, and applies `tail`. Returns a channels_last
// tensor of `type`, float32 or bfloat16. `shortcut`, for add_relu only, is a float32 tensor of x's
// shape. Each element is computed in float32. On a CPU, sums are float32 over up to 32,768
// elements, and float64 beyond that. The result does not depend on the number of threads. Requires
// group_norm_fits(x). Throws c10::Error if c is not a multiple of `groups`, or if a shape does not
// fit.
at::Tensor fused_group_norm(const at::Tensor& x, int64_t groups, const at::Tensor& scale,
                            const at::Tensor& bias, double eps, NormTail tail, at::ScalarType type,
                            const std::optional<at::Tensor>& shortcut = {});

// Returns relu(shortcut + normalized x) in float32, and rounded to `type`. On a CUDA device the
// same pass writes both, and the backward pass reads both gradients.
std::pair<at::Tensor, at::Tensor> fused_group_norm_add_relu(const at::Tensor& x, int64_t groups,
                                                            const at::Tensor& scale,
                                                            const at::Tensor& bias, double eps,
                                                            const at::Tensor& shortcut,
                                                            at::ScalarType type);

}  // namespace bv
