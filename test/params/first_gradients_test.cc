// The first gradient of a step overwrites the gradient buffer, and later ones are added to it.
#include "lib/params/first_gradients.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <catch2/catch.hpp>

#include "lib/model/kernels/linear.h"
#include "test/support/tiny_model.h"

namespace bv::test {
namespace {

struct Buffers {
  explicit Buffers(std::vector<int> groups = {0, 0, 0, 0}) : params(model, groups) {
    // Leftovers of the previous step.
    for (const auto& slice : params.slices(FlatParams::BufferKind::grads))
      params.grads().narrow(0, slice.offset, slice.count).fill_(7);
  }
  void backward() {
    Pass pass;
    model.forward(tiny_batch(1).at("image"), pass).sum().backward();
  }
  const FlatParams::Entry& entry(const std::string& name) const {
    for (const FlatParams::Entry& each : params.entries())
      if (each.name == name) return each;
    throw std::logic_error("no parameter " + name);
  }
  TinyModel model;
  FlatParams params;
};

// The gradients of a backward pass with autograd alone, in the layout of the buffer.
at::Tensor added_to_zeros(std::vector<int> groups = {0, 0, 0, 0}) {
  Buffers plain(std::move(groups));
  plain.params.grads().zero_();
  plain.backward();
  return plain.params.grads();
}

// The sum of x, whose backward returns `gradient`.
struct GivesGradient : public torch::autograd::Function<GivesGradient> {
  static inline at::Tensor gradient;
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x.sum();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    return {std::exchange(gradient, {})};
  }
};

}  // namespace

TEST_CASE("the first gradient of a step overwrites, later ones are added") {
  Buffers buffers;
  FirstGradients first(buffers.params);
  const at::Tensor once = added_to_zeros();
  REQUIRE(once.abs().sum().item<float>() > 0);
  for (const int passes : {1, 2, 1, 3}) {
    first.begin();
    for (int i = 0; i < passes; ++i) buffers.backward();
    first.finish();
    CHECK(buffers.params.grads().allclose(passes * once));
    for (const auto& entry : buffers.params.entries()) {
      const float* const home = buffers.params.grads().const_data_ptr<float>() + entry.offset;
      CHECK(entry.parameter.grad().const_data_ptr<float>() == home);
    }
  }
}

TEST_CASE("a gradient that does not arrive is zero") {
  Buffers buffers;
  FirstGradients first(buffers.params);
  first.begin();
  (buffers.entry("body/bias").parameter.sum() * 3).backward();
  first.finish();
  for (const auto& entry : buffers.params.entries())
    CHECK(entry.parameter.grad().eq(entry.name == "body/bias" ? 3 : 0).all().item<bool>());
  CHECK(buffers.params.grads().sum().item<float>() == 3 * 24);
}

TEST_CASE("frozen parameters get no gradient") {
  const std::vector<int> groups = {0, kFrozen, kFrozen, 0};
  Buffers buffers(groups);
  {
    FirstGradients first(buffers.params);
    first.begin();
    CHECK_FALSE(first.take(buffers.entry("head/kernel").parameter.t()).defined());
    buffers.backward();
    first.finish();
  }
  CHECK(buffers.params.grads().allclose(added_to_zeros(groups)));
  buffers.backward();  // without hooks autograd adds again
  CHECK(buffers.params.grads().allclose(2 * added_to_zeros(groups)));
}

TEST_CASE("a kernel gets the memory of a gradient once a step, for a whole parameter") {
  Buffers buffers;
  FirstGradients first(buffers.params);
  const auto& [name, kernel] = std::pair("body/kernel", buffers.entry("body/kernel").parameter);
  const float* const home =
      buffers.params.grads().const_data_ptr<float>() + buffers.entry(name).offset;
  CHECK_FALSE(first.take(kernel).defined());
  first.begin();
  CHECK_FALSE(first.take(kernel.narrow(1, 0, 1)).defined());
  CHECK_FALSE(first.take(at::ones({12, 24})).defined());
  const at::Tensor memory = first.take(kernel.t());
  REQUIRE(memory.defined());
  CHECK(memory.const_data_ptr<float>() == home);
  CHECK(memory.sizes() == kernel.t().sizes());
  CHECK(memory.strides() == kernel.t().strides());
  CHECK_FALSE(first.take(kernel).defined());
  first.finish();
  CHECK_FALSE(first.take(kernel).defined());
  first.begin();
  buffers.backward();
  CHECK_FALSE(first.take(kernel).defined());  // its gradient has arrived
  first.finish();
}

TEST_CASE("a weight that is used twice gets the sum of both gradients") {
  Buffers buffers;
  const at::Tensor kernel = buffers.entry("body/kernel").parameter;  // (12, 24)
  const at::Tensor bias = at::ones({24}), x = at::ones({3, 12}), wide = at::ones({5, 12}) * 0.5;
  const auto loss = [&] {
    return linear(x, kernel.t(), bias).square().sum() + linear(wide, kernel.t(), bias).sum();
  };
  buffers.params.grads().zero_();
  loss().backward();
  const at::Tensor expected = buffers.params.grads().clone();
  FirstGradients first(buffers.params);
  first.begin();
  {
    const GradientMemory::Scope scope(first);
    loss().backward();
  }
  first.finish();
  CHECK(buffers.params.grads().allclose(expected));
}

TEST_CASE("an operator may give a parameter no gradient") {
  Buffers buffers;
  FirstGradients first(buffers.params);
  first.begin();
  const at::Tensor bias = buffers.entry("body/bias").parameter;
  (GivesGradient::apply(bias) + buffers.entry("head/bias").parameter.sum()).backward();
  first.finish();
  CHECK(buffers.params.grads().sum().item<float>() == 5);
  CHECK(bias.grad().eq(0).all().item<bool>());
}

TEST_CASE("gradients that were interrupted by an error do not reach the next step") {
  Buffers buffers;
  FirstGradients first(buffers.params);
  first.begin();
  (buffers.entry("body/bias").parameter.sum() * 3).backward();  // then an error: no finish()
  first.begin();
  buffers.backward();
  first.finish();
  CHECK(buffers.params.grads().allclose(added_to_zeros()));
}

TEST_CASE("a gradient that lies in its memory in another order is put in order") {
  Buffers buffers;
  FirstGradients first(buffers.params);
  const at::Tensor kernel = buffers.entry("body/kernel").parameter;  // (12, 24), stored as (24, 12)
  const at::Tensor factor = at::ones({12, 24}).cumsum(0);
  first.begin();
  const at::Tensor memory = first.take(kernel);
  REQUIRE(memory.defined());
  const at::Tensor turned = memory.as_strided({12, 24}, {24, 1});  // not as the parameter
  turned.copy_(factor);
  GivesGradient::gradient = turned;
  GivesGradient::apply(kernel).backward();
  first.finish();
  CHECK(kernel.grad().equal(factor));
}

}  // namespace bv::test
