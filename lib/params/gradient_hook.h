// Calls a function each time autograd has added to a parameter's gradient.
#pragma once

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <memory>
#include <utility>

namespace bv {

class GradientHook : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit GradientHook(std::function<void()> call) : call_(std::move(call)) {}
  void operator()(const at::Tensor&) override { call_(); }

  // Replaces the hook that the parameter had.
  static void set(const at::Tensor& parameter, std::function<void()> call) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameter,
                                                   std::make_unique<GradientHook>(std::move(call)));
  }
  static void remove(const at::Tensor& parameter) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
  }

 private:
  std::function<void()> call_;
};

}  // namespace bv
