// The size of a model.
#pragma once

#include <cstdint>

#include "lib/model/model.h"

namespace bv::test {

// Returns how many numbers the parameters of a model hold.
inline int64_t parameter_count(const Model& model) {
  int64_t sum = 0;
  for (const auto& [name, parameter] : named_parameters(model)) sum += parameter.numel();
  return sum;
}

}  // namespace bv::test
