#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/clone.h>

#include <cstdint>

namespace bv {

// Returns the tensor, or a copy with the same strides if it is on a GPU and does not begin at a
// multiple of 32 bytes: a thread loads up to 32 bytes at once. New tensors begin there; views may
// not.
inline at::Tensor aligned(const at::Tensor& dense) {
  constexpr uintptr_t kBytes = 32;
  const auto address = reinterpret_cast<uintptr_t>(dense.const_data_ptr());
  return dense.is_cpu() || address % kBytes == 0 ? dense : dense.clone();
}

}  // namespace bv
