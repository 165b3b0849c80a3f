#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "lib/model/kernels/mlp.h"
#include "lib/model/layers/dense.h"
#include "lib/model/module.h"
#include "lib/model/pass.h"

namespace bv {

// Dense, GELU (tanh approximation), dropout, Dense: MlpBlock in big_vision's models/vit.py.
struct Mlp {
  Dense in;   // (D, hidden)
  Dense out;  // (hidden, D)

  // Registers `name`/Dense_{0,1}/{kernel, bias}: kernels Xavier uniform, biases normal with
  // standard deviation 1e-6. `layers` as in lib/model/layers.h.
  static Mlp add(Module& owner, const std::string& name, int64_t features, int64_t hidden,
                 int64_t layers = 0);
  // Maps (..., D) to (..., D) in pass.precision.
  at::Tensor operator()(const at::Tensor& x, double dropout_rate, Pass& pass) const;
  // The same over dimension 1, without dropout: maps (n, tokens, features) to the same shape.
  at::Tensor over_tokens(const at::Tensor& x, Pass& pass) const;
  template <class F>
  void each(const F& f) {
    in.each(f);
    out.each(f);
  }

 private:
  MlpWeights weights() const;
};

}  // namespace bv
