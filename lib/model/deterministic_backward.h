#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// Where results must repeat (set_deterministic()), the backward of the operator that has returned
// `y` uses a deterministic algorithm, or throws if it has none. Without this call, flash attention
// and memory-efficient attention warn and add in any order, although they have such an algorithm.
void require_deterministic_backward(const at::Tensor& y);

}  // namespace bv
