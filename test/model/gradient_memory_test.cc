// Kernels write their weight gradients to the memory that GradientMemory returns.
#include "lib/model/gradient_memory.h"

#include <cmath>
#include <map>

#include "lib/model/kernels/linear.h"
#include "lib/model/kernels/mlp.h"
#include "test/model/against_formula.h"

namespace bv::test {
namespace {

// Returns separate memory for each weight.
class Recorder : public GradientMemory {
 public:
  at::Tensor take(const at::Tensor& weight) override {
    return given_[weight.const_data_ptr()] = at::full_like(weight, NAN);
  }
  bool gave(const at::Tensor& weight, const at::Tensor& gradient) const {
    const auto found = given_.find(weight.const_data_ptr());
    return found != given_.end() && found->second.const_data_ptr() == gradient.const_data_ptr();
  }

 private:
  std::map<const void*, at::Tensor> given_;
};

// Checks the gradients of `weights` in the result y of f(), with and without a GradientMemory.
template <class F>
void check_gradients(const F& f, const Tensors& weights) {
  const Tensors expected = torch::autograd::grad({f().square().sum()}, weights);
  Recorder recorder;
  const GradientMemory::Scope scope(recorder);
  const Tensors found = torch::autograd::grad({f().square().sum()}, weights);
  for (size_t i = 0; i < weights.size(); ++i) {
    CHECK(recorder.gave(weights[i], found[i]));
    CHECK(found[i].equal(expected[i]));
  }
}

}  // namespace

TEST_CASE("dense layers and MLPs write the gradients of weights where they are told") {
  const auto kernel = [](int64_t in, int64_t out, uint64_t seed) {  // stored as (out, in)
    return noise({out, in}, at::kFloat, seed).t().requires_grad_();
  };
  const at::Tensor x = noise({2, 10, 12}, at::kFloat, 1), ones = at::ones({12});
  const at::Tensor square = kernel(12, 12, 2), in = kernel(12, 20, 3), out = kernel(20, 12, 4);
  const at::Tensor token_in = kernel(10, 20, 5), token_out = kernel(20, 10, 6);
  const at::Tensor many = at::ones({20}), ten = at::ones({10});
  check_gradients([&] { return linear(x, square.t(), ones); }, {square});
  check_gradients([&] { return mlp(x, {in.t(), many, out.t(), ones}); }, {in, out});
  check_gradients(
      [&] {
        return token_mlp(x, {token_in.t(), many, token_out.t(), ten});
      },
      {token_in, token_out});
}

}  // namespace bv::test
