// The losses of the task `classify`, which the keys `loss` and `evals.*.loss_name` name. Each is
// one file in lib/model/losses. big_vision's are in utils.py.
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
  // Labels may be one-hot, multi-hot or mixed. They are not normalized and need not sum to one.
  virtual at::Tensor operator()(const at::Tensor& logits, const at::Tensor& labels) const = 0;
};

}  // namespace bv
