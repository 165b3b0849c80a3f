#pragma once

#include <ATen/TensorOperators.h>

#include <tuple>
#include <utility>

#include "lib/model/layers/layer_norm.h"

namespace bv {

// The residual stream of a model whose branches begin with a layer norm. The norm that follows a
// branch also adds it, because one kernel does both.
class Residual {
 public:
  explicit Residual(at::Tensor x) : x_(std::move(x)) {}

  // Adds `branch`, which has the stream's shape.
  void add(const at::Tensor& branch) {
    x_ = sum();
    branch_ = branch;
  }
  // Returns the stream.
  const at::Tensor& sum() {
    if (branch_.defined()) x_ = x_ + branch_;
    branch_.reset();
    return x_;
  }
  // Returns the stream, normalized, in `type`, float32 or bfloat16.
  at::Tensor normalised(const LayerNorm& norm, at::ScalarType type = at::kFloat) {
    if (!branch_.defined()) return norm(x_, type);
    at::Tensor y;
    std::tie(x_, y) = norm.add(x_, branch_, type);
    branch_.reset();
    return y;
  }

 private:
  at::Tensor x_, branch_;
};

}  // namespace bv
