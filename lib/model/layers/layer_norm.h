#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>

#include "lib/model/module.h"

namespace bv {

// Layer normalization over the last dimension, with eps 1e-6.
struct LayerNorm {
  at::Tensor scale, bias;  // (features)

  // Registers `name`/{scale, bias}; `layers` as in lib/model/layers.h.
  static LayerNorm add(Module& owner, const std::string& name, int64_t features,
                       int64_t layers = 0);
  // Returns the normalized x in `type`, float32 or bfloat16.
  at::Tensor operator()(const at::Tensor& x, at::ScalarType type = at::kFloat) const;
  // Returns x + branch, and the normalized sum in `type`.
  std::pair<at::Tensor, at::Tensor> add(const at::Tensor& x, const at::Tensor& branch,
                                        at::ScalarType type) const;
  template <class F>
  void each(const F& f) {
    f(scale);
    f(bias);
  }
};

}  // namespace bv
