#include "lib/model/init.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <catch2/catch.hpp>
#include <cmath>

namespace bv::test {
namespace {

at::Tensor drawn(const Init& init, std::vector<int64_t> shape, uint64_t key) {
  at::Tensor tensor = at::full(shape, NAN);
  init(tensor, key);
  return tensor;
}

// Checks that the standard deviation is within 3 * std / sqrt(2n) and the mean within 4 standard
// errors.
void check_moments(const at::Tensor& x, double stddev) {
  const auto n = static_cast<double>(x.numel());
  CHECK(x.mean().item<double>() == Approx(0).margin(4 * stddev / std::sqrt(n)));
  CHECK(x.std().item<double>() == Approx(stddev).margin(3 * stddev / std::sqrt(2 * n)));
}

// Returns the Kolmogorov-Smirnov distance to a distribution function, times sqrt(n). It exceeds
// 1.95 once in 1000 times.
template <class Cdf>
double ks_distance(const at::Tensor& x, const Cdf& cdf) {
  const at::Tensor sorted = std::get<0>(x.flatten().to(at::kDouble).sort());
  const double* values = sorted.const_data_ptr<double>();
  const auto n = static_cast<double>(sorted.numel());
  double worst = 0;
  for (int64_t i = 0; i < sorted.numel(); ++i) {
    const double p = cdf(values[i]), at = static_cast<double>(i);
    worst = std::max({worst, std::abs(p - at / n), std::abs(p - (at + 1) / n)});
  }
  return worst * std::sqrt(n);
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

TEST_CASE("constants fill") {
  CHECK(drawn(zeros(), {3}, 1).equal(at::zeros({3})));
  CHECK(drawn(ones(), {3}, 1).equal(at::ones({3})));
  CHECK(drawn(constant(-4.5), {3}, 1).equal(at::full({3}, -4.5)));
}

TEST_CASE("draws have the distribution they are named after") {
  const at::Tensor gauss = drawn(normal(0.5), {100000}, 7);
  check_moments(gauss, 0.5);
  CHECK(ks_distance(gauss, [](double x) { return normal_cdf(x / 0.5); }) < 1.95);

  // Truncated at two standard deviations, and wide enough that the variance is 1 / fan_in
  // afterwards.
  const at::Tensor lecun = drawn(lecun_normal(25), {100000}, 8);
  const double sigma = 0.2 / 0.87962566103423978, tail = normal_cdf(-2);
  check_moments(lecun, 0.2);
  CHECK(lecun.abs().max().item<double>() <= 2 * sigma * (1 + 1e-6));
  CHECK(lecun.abs().max().item<double>() > 1.999 * sigma);
  CHECK(ks_distance(lecun, [&](double x) {
          return (normal_cdf(x / sigma) - tail) / (1 - 2 * tail);
        }) < 1.95);
  check_moments(drawn(he_normal(50), {100000}, 9), 0.2);

  const at::Tensor xavier = drawn(xavier_uniform(10, 14), {100000}, 10);
  check_moments(xavier, 0.5 / std::sqrt(3.0));
  CHECK(xavier.abs().max().item<double>() <= 0.5);
  CHECK(ks_distance(xavier, [](double x) { return x + 0.5; }) < 1.95);
}

TEST_CASE("an element depends on the key and its logical index, not on layout or threads") {
  const at::Tensor plain = drawn(lecun_normal(9), {3, 5, 7, 11}, 42);
  at::Tensor permuted = at::empty({11, 3, 5, 7}).permute({1, 2, 3, 0});
  lecun_normal(9)(permuted, 42);
  CHECK(permuted.equal(plain));
  CHECK_FALSE(permuted.is_contiguous());

  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor serial = drawn(normal(1), {40001}, 42);
  at::set_num_threads(4);
  CHECK(drawn(normal(1), {40001}, 42).equal(serial));
  at::set_num_threads(threads);
  CHECK(drawn(normal(1), {100}, 42).equal(serial.narrow(0, 0, 100)));
  CHECK_FALSE(drawn(normal(1), {40001}, 43).equal(serial));
}

TEST_CASE("stacked initialisers draw each slice by itself") {
  const at::Tensor stack = drawn(stacked(normal(1)), {3, 4000}, 5);
  for (int i = 0; i < 3; ++i) check_moments(stack[i], 1);
  const at::Tensor correlation = at::corrcoef(stack);
  CHECK((correlation - at::eye(3)).abs().max().item<double>() < 0.08);
}

}  // namespace
}  // namespace bv::test
