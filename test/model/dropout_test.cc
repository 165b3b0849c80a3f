#include "lib/model/dropout.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

namespace bv::test {
namespace {

Pass training(uint64_t seed, int64_t step) {
  Pass pass;
  pass.train = true;
  pass.seed = seed;
  pass.step = step;
  return pass;
}

TEST_CASE("dropout is the identity in evaluation and at rate 0") {
  const at::Tensor x = at::arange(10).to(at::kFloat);
  Pass evaluation, train = training(1, 1);
  CHECK(dropout(x, 0.5, evaluation).is_same(x));
  CHECK(dropout(x, 0, train).is_same(x));
  CHECK(train.next_dropout == 0);
}

TEST_CASE("dropout drops the rate, scales the rest and sends gradients through the same mask") {
  const at::Tensor x = at::ones({400, 500}).requires_grad_(true);
  Pass pass = training(3, 7);
  const at::Tensor y = dropout(x, 0.3, pass);
  const at::Tensor kept = y != 0;
  CHECK(y.equal(at::where(kept, at::full_like(y, static_cast<float>(1 / 0.7)), at::zeros_like(y))));
  // 5 standard deviations of a binomial
  CHECK(kept.to(at::kFloat).mean().item<double>() ==
        Approx(0.7).margin(5 * 0.458 / std::sqrt(200000.0)));
  y.sum().backward();
  CHECK(x.grad().equal(y));
  CHECK(pass.next_dropout == 1);
}

TEST_CASE("the mask is a function of seed, step and place in the pass") {
  const at::Tensor x = at::ones({1000});
  const auto masks = [&](uint64_t seed, int64_t step) {
    Pass pass = training(seed, step);
    const at::Tensor first = dropout(x, 0.5, pass);
    return std::pair(first, dropout(x, 0.5, pass));
  };
  const auto [first, second] = masks(1, 1);
  CHECK_FALSE(first.equal(second));
  CHECK(masks(1, 1).first.equal(first));
  CHECK(masks(1, 1).second.equal(second));
  CHECK_FALSE(masks(1, 2).first.equal(first));
  CHECK_FALSE(masks(2, 1).first.equal(first));
  CHECK_FALSE(masks(1ull << 40 | 1, 1).first.equal(first));
}

TEST_CASE("rates near 0 and 1 keep and drop nearly all") {
  const at::Tensor x = at::ones({1000}).to(at::kBFloat16);
  Pass pass = training(1, 1);
  CHECK((dropout(x, 1e-9, pass) != 0).all().item<bool>());
  CHECK((dropout(x, 1 - 1e-9, pass) == 0).all().item<bool>());
  CHECK(dropout(x, 0.5, pass).scalar_type() == at::kBFloat16);
}

}  // namespace
}  // namespace bv::test
