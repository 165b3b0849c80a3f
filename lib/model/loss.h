// The losses that the key `loss` and the evaluators' `loss_name` name: `sigmoid_xent` and
// `softmax_xent` of big_vision's utils.py.
#pragma once

#include <ATen/core/Tensor.h>

#include "lib/config/registry.h"

namespace bv {

class Loss {
 public:
  using Registry = bv::Registry<Loss>;
  static constexpr const char* kKind = "loss";
  virtual ~Loss() = default;
  // Takes logits and labels (n, classes) float32 and returns one value per example: (n) float32.
  // Labels may be one-hot, multi-hot or mixed. They are not normalised and need not sum to one.
  virtual at::Tensor operator()(const at::Tensor& logits, const at::Tensor& labels) const = 0;
};

}  // namespace bv
