#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "lib/model/module.h"

namespace bv {

// The residual stream between two units: `sum` in float32, and the same rounded to the type in
// which convolutions compute.
struct ResidualSum {
  at::Tensor sum, rounded;
};

// Group normalization of (n, c, h, w): over h, w and the channels of a group. It is computed in
// float32.
struct GroupNorm {
  at::Tensor scale, bias;  // (c) float32
  int64_t groups = 32;
  double eps = 1e-6;

  // Registers `name`/{scale, bias}.
  static GroupNorm add(Module& owner, const std::string& name, int64_t channels, int64_t groups);
  // Returns the normalized x in `type`, float32 or bfloat16.
  at::Tensor operator()(const at::Tensor& x, at::ScalarType type) const;
  // Returns relu(normalized x) in `type`.
  at::Tensor relu(const at::Tensor& x, at::ScalarType type) const;
  // Returns relu(shortcut + normalized x) in float32 and in `type`. `shortcut` is float32 and has
  // x's shape.
  ResidualSum add_relu(const at::Tensor& x, const at::Tensor& shortcut, at::ScalarType type) const;
};

}  // namespace bv
