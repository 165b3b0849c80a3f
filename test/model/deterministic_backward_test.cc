#include "lib/model/deterministic_backward.h"

#include <ATen/Context.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/custom_function.h>

#include <catch2/catch.hpp>

#include "lib/device/deterministic.h"

namespace bv {
namespace {

bool g_strict = false;

bool is_strict() {
  const at::Context& context = at::globalContext();
  return context.deterministicAlgorithms() && !context.deterministicAlgorithmsWarnOnly();
}

// Its backward records the mode.
struct Noting : torch::autograd::Function<Noting> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& grads) {
    g_strict = is_strict();
    return grads;
  }
};

bool strict_in_backward(bool required) {
  const at::Tensor x = at::ones({2}).requires_grad_();
  const at::Tensor y = Noting::apply(x);
  if (required) require_deterministic_backward(y);
  (y * 2).sum().backward();
  return g_strict;
}

}  // namespace

TEST_CASE("a backward is held to deterministic algorithms only where results must repeat") {
  set_deterministic(true);
  CHECK(strict_in_backward(true));
  CHECK_FALSE(is_strict());  // only during backward
  CHECK_FALSE(strict_in_backward(false));
  set_deterministic(false);
  CHECK_FALSE(strict_in_backward(true));
  require_deterministic_backward(at::ones({2}));  // has no backward
}

TEST_CASE("set_deterministic() excludes cuDNN's attention and its measuring of algorithms") {
  const at::Context& context = at::globalContext();
  set_deterministic(true);
  CHECK_FALSE(context.userEnabledCuDNNSDP());
  CHECK_FALSE(context.benchmarkCuDNN());
  CHECK(context.deterministicCuDNN());
  CHECK(context.deterministicAlgorithmsWarnOnly());
  set_deterministic(false);
  CHECK(context.userEnabledCuDNNSDP());
  CHECK(context.benchmarkCuDNN());
  CHECK_FALSE(context.deterministicCuDNN());
  CHECK_FALSE(context.deterministicAlgorithms());
}

}  // namespace bv
