#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "lib/model/layers/dense.h"
#include "lib/model/module.h"
#include "lib/model/pass.h"

namespace bv {

// Multi-head dot-product attention with D features and H heads, without dropout on its weights
// (flax's MultiHeadDotProductAttention).
struct Attention {
  Dense query, key, value;  // kernels (D, H, D/H), biases (H, D/H)
  Dense out;                // kernel (H, D/H, D), bias (D)

  // Registers `name`/{query, key, value, out}/{kernel, bias}; `layers` as in lib/model/layers.h.
  static Attention add(Module& owner, const std::string& name, int64_t features, int64_t heads,
                       int64_t layers = 0);
  // Attends from `queries` (n, lq, D) to `tokens` (n, l, D), which may be the same tensor. Returns
  // (n, lq, D) in pass.precision.
  at::Tensor operator()(const at::Tensor& queries, const at::Tensor& tokens, Pass& pass) const;
  template <class F>
  void each(const F& f) {
    query.each(f);
    key.each(f);
    value.each(f);
    out.each(f);
  }
};

}  // namespace bv
