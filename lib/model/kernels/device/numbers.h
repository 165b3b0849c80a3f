#pragma once

#include <ATen/core/Tensor.h>

#include "lib/util/bf16.h"

namespace bv {

// Returns the numbers of a float32 or bfloat16 tensor; null if the tensor is undefined.
inline Numbers numbers(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {tensor.data_ptr(), tensor.scalar_type() == at::kBFloat16};
}

}  // namespace bv
