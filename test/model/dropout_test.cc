#include "lib/model/dropout.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "lib/model/dropout_mask.h"

namespace bv::test {
namespace {

Pass dropout_pass(uint64_t seed, int64_t step) {
  Pass pass;
  pass.train = true;
  pass.seed = seed;
  pass.step = step;
  return pass;
}

TEST_CASE("dropout is the identity in evaluation and at rate 0") {
  const at::Tensor x = at::arange(10).to(at::kFloat);
  Pass evaluation, train = dropout_pass(1, 1);
  CHECK(dropout(x, 0.5, evaluation).is_same(x));
  CHECK(dropout(x, 0, train).is_same(x));
  CHECK(train.next_dropout == 0);
}

TEST_CASE("dropout drops the rate, scales the rest and sends gradients through the same mask") {
  const at::Tensor x = at::ones({400, 500}).requires_grad_(true);
  Pass pass = dropout_pass(3, 7);
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
    Pass pass = dropout_pass(seed, step);
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

TEST_CASE("each element of a large batch has its own random number") {
  const at::Tensor x = at::ones({1, 1024});
  const auto mask = [&](int64_t first_element, int64_t step) {
    Pass pass = dropout_pass(1, step);
    pass.first_example = first_element / x.size(1);
    return dropout(x, 0.5, pass);
  };
  const at::Tensor first = mask(0, 1);
  for (const int shift : {33, 34, 35, 41}) {
    const at::Tensor later = mask(int64_t{1} << shift, 1);
    CHECK_FALSE(later.equal(first));
    CHECK(later.mean().item<double>() == Approx(1).margin(5 / std::sqrt(1024.0)));
  }
  CHECK_FALSE(mask(int64_t{1} << 34, 1).equal(mask(int64_t{1} << 35, 1)));
  CHECK_FALSE(mask(int64_t{1} << 34, 1).equal(mask(0, int64_t{1} << 32)));
}

TEST_CASE("up to 2^34 elements a mask has the bits that it had when that was the limit") {
  const DropoutMask mask = {(int64_t{1} << 34) - 4,
                            int64_t{1} << 34,
                            1U << 31,
                            2.0F,
                            0x304,
                            (uint64_t{6} << 32) + 5,
                            {7, 8}};
  float out[4] = {};
  mask.fill(mask.first_block(), out);
  const std::array<uint32_t, 4> bits = philox({0xFFFFFFFF, 0x304, 5, 6}, {7, 8});
  for (size_t k = 0; k < 4; ++k) CHECK(out[k] == (bits[k] < (1U << 31) ? 0.0F : 2.0F));
}

TEST_CASE("rates near 0 and 1 keep and drop nearly all") {
  const at::Tensor x = at::ones({1000}).to(at::kBFloat16);
  Pass pass = dropout_pass(1, 1);
  CHECK((dropout(x, 1e-9, pass) != 0).all().item<bool>());
  CHECK((dropout(x, 1 - 1e-9, pass) == 0).all().item<bool>());
  CHECK(dropout(x, 0.5, pass).scalar_type() == at::kBFloat16);
}

}  // namespace
}  // namespace bv::test
