#include "lib/params/first_gradients.h"

#include <utility>

#include "lib/util/error.h"

namespace bv {

FirstGradients::FirstGradients(const FlatParams& params) {
  for (const FlatParams::Entry& entry : params.entries()) {
    if (entry.group != kFrozen && entry.level < ShardLevel::zero2)
      slots_.push_back({.parameter = entry.parameter, .home = entry.parameter.grad()});
  }
  for (Slot& slot : slots_) {
    by_memory_[slot.parameter.const_data_ptr()] = &slot;
    slot.hook = slot.parameter.register_hook(
        [&slot](const at::Tensor& gradient) { return arrive(slot, gradient); });
  }
}

FirstGradients::~FirstGradients() {
  for (const Slot& slot : slots_) {
    slot.parameter.remove_hook(slot.hook);
    if (!slot.parameter.grad().defined()) slot.parameter.mutable_grad() = slot.home;
  }
}

void FirstGradients::begin() {
  for (Slot& slot : slots_) {
    slot.empty = true;
    slot.taken = false;
    slot.parameter.mutable_grad().reset();
  }
}

void FirstGradients::finish() {
  for (Slot& slot : slots_) {
    if (std::exchange(slot.empty, false)) {
      slot.home.zero_();
      slot.parameter.mutable_grad() = slot.home;
    }
    check(slot.parameter.grad().const_data_ptr() == slot.home.const_data_ptr(),
          "autograd did not keep a gradient where it was written");
  }
}

at::Tensor FirstGradients::take(const at::Tensor& weight) {
  const auto found = by_memory_.find(weight.const_data_ptr());
  if (found == by_memory_.end()) return {};
  Slot& slot = *found->second;
  const bool whole = weight.numel() == slot.parameter.numel() &&
                     weight.scalar_type() == slot.parameter.scalar_type() &&
                     weight.is_non_overlapping_and_dense();
  if (!whole || !slot.empty || slot.taken) return {};
  slot.taken = true;
  return slot.home.as_strided(weight.sizes(), weight.strides());
}

// Returns the gradient that autograd is to store or add.
at::Tensor FirstGradients::arrive(Slot& slot, const at::Tensor& gradient) {
  if (!gradient.defined() || !std::exchange(slot.empty, false)) return gradient;
  if (gradient.const_data_ptr() != slot.home.const_data_ptr())
    slot.home.copy_(gradient);
  else if (gradient.strides() != slot.home.strides())
    slot.home.copy_(gradient.clone());
  return slot.home.detach();  // a new tensor, because autograd copies one that others refer to
}

}  // namespace bv
