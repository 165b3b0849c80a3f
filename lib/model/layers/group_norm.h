#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "lib/model/module.h"

namespace bv {

// Normalises x, (n, c, h, w), over h, w and the channels of a group, and returns a tensor in the
// type of x. scale and bias are (c) float32. It is computed in float32.
at::Tensor group_norm(const at::Tensor& x, int64_t groups, const at::Tensor& scale,
                      const at::Tensor& bias, double eps);

// Group normalisation of (n, c, h, w): over h, w and the channels of a group, with eps 1e-6.
struct GroupNorm {
  at::Tensor scale, bias;  // (c)
  int64_t groups = 32;

  // Registers `name`/{scale, bias}.
  static GroupNorm add(Module& owner, const std::string& name, int64_t channels, int64_t groups);
  // Returns a tensor in the type of x.
  at::Tensor operator()(const at::Tensor& x) const;
};

}  // namespace bv
