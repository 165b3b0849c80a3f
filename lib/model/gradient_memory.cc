#include "lib/model/gradient_memory.h"

#include <ATen/ops/empty_like.h>

namespace bv {

GradientMemory*& GradientMemory::current() {
  // On a CPU, backward runs in the thread that called it.
  static thread_local GradientMemory* memory = nullptr;
  return memory;
}

at::Tensor new_gradient(const at::Tensor& weight) {
  at::Tensor gradient;
  if (GradientMemory* const memory = GradientMemory::current()) gradient = memory->take(weight);
  return gradient.defined() ? gradient : at::empty_like(weight);
}

}  // namespace bv
