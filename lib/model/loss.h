// Losses by name (reference section 8.1): per-example values from logits and dense labels.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "lib/config/registry.h"

namespace bv {

class Loss {
 public:
  using Registry = bv::Registry<Loss>;
  static constexpr const char* kKind = "loss";
  virtual ~Loss() = default;
  // logits, labels: (n, classes) float32 (labels one-hot, multi-hot or mixed). Returns (n) float32.
  virtual at::Tensor operator()(const at::Tensor& logits, const at::Tensor& labels) const = 0;
};

}  // namespace bv
