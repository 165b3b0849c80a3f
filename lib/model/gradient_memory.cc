#include "lib/model/gradient_memory.h"

#include <ATen/ops/empty_like.h>

namespace bv {

namespace {

// On a CPU, backward runs in the thread that called it.
thread_local GradientMemory* t_memory = nullptr;

}  // namespace

GradientMemory::Scope::Scope(GradientMemory& memory) { t_memory = &memory; }
GradientMemory::Scope::~Scope() { t_memory = nullptr; }

at::Tensor new_gradient(const at::Tensor& weight) {
  at::Tensor gradient;
  if (t_memory != nullptr) gradient = t_memory->take(weight);
  return gradient.defined() ? gradient : at::empty_like(weight);
}

}  // namespace bv
