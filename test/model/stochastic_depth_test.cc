#include "lib/model/stochastic_depth.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

namespace bv::test {
namespace {

Pass depth_pass(uint64_t seed, int64_t step) {
  Pass pass;
  pass.train = true;
  pass.seed = seed;
  pass.step = step;
  return pass;
}

TEST_CASE("stochastic depth is the identity in evaluation and at rate 0") {
  const at::Tensor y = at::ones({4, 2});
  Pass evaluation, train = depth_pass(1, 1);
  CHECK(stochastic_depth(y, 0.5, evaluation).is_same(y));
  CHECK(stochastic_depth(y, 0, train).is_same(y));
  CHECK(train.next_dropout == 0);
}

TEST_CASE("stochastic depth drops whole examples at the rate and rescales nothing") {
  const at::Tensor y = at::full({20000, 2, 3}, 5.0f).requires_grad_(true);
  Pass pass = depth_pass(3, 7);
  const at::Tensor z = stochastic_depth(y, 0.3, pass);
  const at::Tensor kept = z.select(2, 0).select(1, 0) != 0;
  CHECK(z.equal(y * kept.to(at::kFloat).view({20000, 1, 1})));
  // 5 standard deviations of a binomial
  CHECK(kept.to(at::kFloat).mean().item<double>() ==
        Approx(0.7).margin(5 * 0.458 / std::sqrt(20000.0)));
  z.sum().backward();
  CHECK(y.grad().equal((z != 0).to(at::kFloat)));
  CHECK(pass.next_dropout == 1);
}

TEST_CASE(
    "the dropped examples are a function of seed, step and place in the pass; rate 1 drops all") {
  const at::Tensor y = at::ones({500, 1}).to(at::kBFloat16);
  const auto draw = [&](uint64_t seed, int64_t step) {
    Pass pass = depth_pass(seed, step);
    const at::Tensor first = stochastic_depth(y, 0.5, pass);
    return std::pair(first, stochastic_depth(y, 0.5, pass));
  };
  const auto [first, second] = draw(1, 1);
  CHECK(first.scalar_type() == at::kBFloat16);
  CHECK_FALSE(first.equal(second));
  CHECK(draw(1, 1).first.equal(first));
  CHECK(draw(1, 1).second.equal(second));
  CHECK_FALSE(draw(1, 2).first.equal(first));
  CHECK_FALSE(draw(2, 1).first.equal(first));
  CHECK_FALSE(draw(1ull << 40 | 1, 1).first.equal(first));
  Pass pass = depth_pass(1, 1);
  CHECK_FALSE(stochastic_depth(y, 1, pass).any().item<bool>());
}

}  // namespace
}  // namespace bv::test
