#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// If results must be reproducible (set_deterministic()), the backward of the operator that returned
// `y` uses a deterministic algorithm, or throws if there is none. Without this call, flash
// attention and memory-efficient attention only warn and sum in any order, although they have such
// an algorithm.
void require_deterministic_backward(const at::Tensor& y);

}  // namespace bv
