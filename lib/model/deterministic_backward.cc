#include "lib/model/deterministic_backward.h"

#include <ATen/Context.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <string>

namespace bv {
namespace {

using torch::autograd::variable_list;

struct Begin : torch::autograd::FunctionPreHook {
  variable_list operator()(const variable_list& grads) override {
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
    return grads;
  }
};

struct End : torch::autograd::FunctionPostHook {
  variable_list operator()(const variable_list& out, const variable_list&) override {
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
    return out;
  }
};

}  // namespace

void require_deterministic_backward(const at::Tensor& y) {
  torch::autograd::Node* node = y.grad_fn().get();
  // LibTorch pads heads whose width is not a multiple of 8, and returns a slice of the result.
  while (node != nullptr && node->name().find("SliceBackward") != std::string::npos)
    node = node->next_edge(0).function.get();
  if (node == nullptr || !at::globalContext().deterministicAlgorithms()) return;
  node->add_pre_hook(std::make_unique<Begin>());
  node->add_post_hook(std::make_unique<End>());
}

}  // namespace bv
