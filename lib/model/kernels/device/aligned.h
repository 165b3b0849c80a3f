#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/clone.h>

#include <cstdint>

namespace bv {

// Returns a tensor on a GPU whose address is a multiple of 32 bytes, because a thread loads up to
// 32 bytes at once: `dense`, or a copy with the same strides. New tensors are aligned; views need
// not be. A CPU tensor is returned as it is.
inline at::Tensor aligned(const at::Tensor& dense) {
  constexpr uintptr_t kBytes = 32;
  const auto address = reinterpret_cast<uintptr_t>(dense.const_data_ptr());
  return dense.is_cpu() || address % kBytes == 0 ? dense : dense.clone();
}

}  // namespace bv
