// ScaledLogits: a model that multiplies the outputs of its last layer (head/kernel, head/bias) by a
// number.
#pragma once

namespace bv {

class ScaledLogits {
 public:
  virtual ~ScaledLogits() = default;
  virtual double logit_scale() const = 0;
};

}  // namespace bv
