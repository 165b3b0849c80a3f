// Parameters that an architecture takes at another size than its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace bv {

// What a Model is beside, where a weights file may hold some parameters at other sizes
// (pos_embedding apart, which every model resamples).
class Refits {
 public:
  virtual ~Refits() = default;
  // `value`, of any shape, made into the model's parameter `name`; as it is where there is no way.
  virtual at::Tensor refit(const std::string& name, const at::Tensor& value) const = 0;
};

}  // namespace bv
