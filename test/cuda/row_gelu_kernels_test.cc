// The CUDA kernels of GELU over rows, run on the CPU (test/cuda/emulation), against float64.
#include "lib/cuda/row_gelu.cu"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "lib/util/rng.h"
#include "test/support/guarded.h"

namespace bv {

using test::Guard;
using test::Guarded;

namespace {

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double slope(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

TEST_CASE("the kernels of GELU over rows, within their buffers") {
  for (const Guard guard : {Guard::before, Guard::behind}) {
    for (const int64_t size : {8, 248, 256, 264, 768}) {
      constexpr int64_t kRows = 11, kPeriod = 4;
      INFO(size);
      const auto count = static_cast<size_t>(kRows * size);
      const Guarded<Bf16> x(count, {}, guard), grad(count, {}, guard), y(count, {}, guard),
          dx(count, {}, guard);
      const Guarded<float> bias(kPeriod, 0, guard), sums(kRows, 0, guard);
      Rng rng(1, Purpose::synthetic, 0);
      for (size_t i = 0; i < count; ++i) {
        store(x.data()[i], static_cast<float>(3 * rng.normal()));
        store(grad.data()[i], static_cast<float>(rng.normal()));
      }
      // Far from 0 the GELU is x or 0, and nothing overflows.
      store(x.data()[0], 3e4F);
      store(x.data()[1], -3e4F);
      for (float& value : bias.values()) value = static_cast<float>(rng.normal());
      bvtrain_cuda_row_gelu({kRows, size, kPeriod, x.data(), bias.data(), y.data()}, nullptr);
      bvtrain_cuda_row_gelu_gradient(
          {kRows, size, kPeriod, x.data(), bias.data(), grad.data(), dx.data(), sums.data()},
          nullptr);
      double worst = 0;
      const auto check = [&](double got, double want, double bound) {
        worst = std::max(worst, std::abs(got - want) / (bound * (1 + std::abs(want))));
      };
      for (int64_t row = 0; row < kRows; ++row) {
        double sum = 0;
        for (int64_t k = 0; k < size; ++k) {
          const auto i = static_cast<size_t>(row * size + k);
          const double value =
              load(x.values()[i]) + bias.values()[static_cast<size_t>(row % kPeriod)];
          const double far = std::abs(value) > 1e3 ? (value > 0 ? 1 : 0) : slope(value);
          check(load(y.values()[i]), gelu(value), 4e-3);
          check(load(dx.values()[i]), load(grad.values()[i]) * far, 4e-3);
          sum += load(grad.values()[i]) * far;
        }
        check(sums.values()[static_cast<size_t>(row)], sum, 1e-4);
      }
      CHECK(worst <= 1);
    }
  }
}

}  // namespace
}  // namespace bv
