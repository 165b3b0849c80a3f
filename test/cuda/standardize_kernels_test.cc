// The CUDA kernels of weight standardisation, run on the CPU (test/cuda/emulation), against
// float64.
#include "lib/cuda/standardize.cu"

#include <catch2/catch.hpp>

#include "lib/util/rng.h"
#include "test/support/guarded.h"

namespace bv {

using test::Guard;
using test::Guarded;

namespace {

template <class Y>
void compare_standardized(int64_t rows, int64_t size, double scale, StandardizeRule rule,
                          Guard guard) {
  INFO(rows << " rows of " << size << ", rule " << static_cast<int>(rule) << ", " << sizeof(Y)
            << " bytes");
  const bool bf16 = sizeof(Y) == 2;
  const auto count = static_cast<size_t>(rows * size), n = static_cast<size_t>(size);
  const Guarded<float> w(count, 0, guard), dw(count, -9, guard);
  const Guarded<Y> y(count, Y{}, guard), grad(count, Y{}, guard);
  Rng rng(1, Purpose::synthetic, 0);
  for (size_t i = 0; i < count; ++i) {
    w.data()[i] = static_cast<float>(scale * (rng.normal() + 2));
    store(grad.data()[i], static_cast<float>(rng.normal()));
  }
  bvtrain_cuda_standardize({rows, size, rule, w.data(), y.data(), bf16}, nullptr);
  bvtrain_cuda_standardize_gradient({rows, size, rule, w.data(), grad.data(), dw.data(), bf16},
                                    nullptr);
  double worst = 0, worst_gradient = 0;
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    const float* own = w.data() + row * n;
    double mean = 0, var = 0, sum = 0, product = 0;
    for (size_t i = 0; i < n; ++i) mean += own[i] / static_cast<double>(size);
    for (size_t i = 0; i < n; ++i) {
      var += (own[i] - mean) * (own[i] - mean) / static_cast<double>(size);
      const double g = load(grad.data()[row * n + i]);
      sum += g / static_cast<double>(size);
      product += g * (own[i] - mean) / static_cast<double>(size);
    }
    const bool paper = rule == StandardizeRule::bit_paper;
    const double inv = paper ? 1 / std::sqrt(var + 1e-10) : 1 / (std::sqrt(var) + 1e-5);
    const double slope = paper ? inv * inv * inv : inv * inv / std::sqrt(var);
    for (size_t i = 0; i < n; ++i) {
      const double want = (own[i] - mean) * inv, g = load(grad.data()[row * n + i]);
      const double gradient = (g - sum) * inv - (own[i] - mean) * slope * product;
      worst = std::max(worst, std::abs(load(y.data()[row * n + i]) - want) / (1 + std::abs(want)));
      worst_gradient =
          std::max(worst_gradient, std::abs(dw.data()[row * n + i] - gradient) / (10 * inv));
    }
  }
  CHECK(worst < (bf16 ? 4e-3 : 1e-5));
  CHECK(worst_gradient < 1e-5);
}

TEST_CASE("the kernels of weight standardisation: rows of every size, types and rules") {
  for (const auto rule : {StandardizeRule::bit, StandardizeRule::bit_paper}) {
    for (const Guard guard : {Guard::before, Guard::behind}) {
      compare_standardized<float>(3, 7 * 7 * 3, 2, rule, guard);
      compare_standardized<Bf16>(2, 64, 0.1, rule, guard);
      compare_standardized<Bf16>(1, 9 * 512, 0.02, rule, guard);
      compare_standardized<float>(2, 33, 2e-5, rule, guard);  // so small that the epsilons count
    }
  }
}

}  // namespace
}  // namespace bv
