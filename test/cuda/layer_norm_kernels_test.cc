// The CUDA kernels of layer normalisation, run on the CPU (test/cuda/emulation), against float64.
#include "lib/cuda/layer_norm.cu"

#include <catch2/catch.hpp>

#include "lib/util/rng.h"
#include "test/support/guarded.h"

namespace bv {

using test::Guard;
using test::Guarded;

namespace {

// Numbers between guard pages, as float or Bf16.
struct Buffer {
  Buffer(size_t count, bool bf16, Guard guard)
      : bf16(bf16),
        wide(bf16 ? 0 : count, -9.0F, guard),
        narrow(bf16 ? count : 0, Bf16{0xC110}, guard) {}
  Numbers numbers() { return {bf16 ? static_cast<void*>(narrow.data()) : wide.data(), bf16}; }
  double operator[](size_t i) const { return bf16 ? load(narrow.values()[i]) : wide.values()[i]; }
  void set(size_t i, double value) {
    if (bf16)
      store(narrow.data()[i], static_cast<float>(value));
    else
      wide.data()[i] = static_cast<float>(value);
  }
  bool bf16;
  Guarded<float> wide;
  Guarded<Bf16> narrow;
};

void fill(Buffer& buffer, size_t count, uint64_t seed, double mean = 0) {
  Rng rng(seed, Purpose::synthetic, 0);
  for (size_t i = 0; i < count; ++i) buffer.set(i, mean + rng.normal());
}

struct Types {
  bool x, branch, y;  // whether bfloat16
};

// Runs both kernels on (rows, size) and compares them with the formulas.
// `blocks`: the number of blocks that compute the gradient, or 0.
void compare_layer_norm(int64_t rows, int64_t size, const Types& types, bool has_branch,
                        Guard guard, int64_t blocks = 0) {
  INFO(rows << " rows of " << size << ", bf16: x " << types.x << ", branch " << types.branch
            << ", y " << types.y << ", has branch: " << has_branch);
  const auto count = static_cast<size_t>(rows * size), columns = static_cast<size_t>(size);
  Buffer x(count, types.x, guard), branch(count, types.branch, guard), s(count, types.x, guard),
      y(count, types.y, guard), scale(columns, false, guard), bias(columns, false, guard),
      moments(static_cast<size_t>(2 * rows), false, guard), grad(count, types.y, guard),
      grad_sum(count, types.x, guard), dx(count, types.x, guard),
      dbranch(count, types.branch, guard), dparams(2 * columns, false, guard);
  fill(x, count, 1, /*mean=*/3);
  fill(branch, count, 2);
  fill(scale, columns, 3);
  fill(bias, columns, 4);
  fill(grad, count, 5);
  fill(grad_sum, count, 6);
  constexpr double kEps = 1e-6;
  bvtrain_cuda_layer_norm(
      {rows, size, kEps, x.numbers(), has_branch ? branch.numbers() : Numbers(), s.numbers(),
       scale.wide.data(), bias.wide.data(), y.numbers(), moments.wide.data()},
      nullptr);
  Buffer& stream = has_branch ? s : x;
  const LayerNormGradient gradient = {rows,
                                      size,
                                      stream.numbers(),
                                      moments.wide.data(),
                                      scale.wide.data(),
                                      grad.numbers(),
                                      has_branch ? grad_sum.numbers() : Numbers(),
                                      dx.numbers(),
                                      has_branch ? dbranch.numbers() : Numbers(),
                                      dparams.wide.data()};
  if (blocks > 0)
    start<1>(gradient, nullptr, blocks);
  else
    bvtrain_cuda_layer_norm_gradient(gradient, nullptr);
  const auto bound = [](bool bf16, double value) {
    return (bf16 ? 8e-3 : 2e-5) * (1 + std::abs(value));
  };
  std::vector<double> dscale(columns), dbias(columns);
  double worst = 0;
  const auto check = [&](double got, double want, bool bf16) {
    worst = std::max(worst, std::abs(got - want) / bound(bf16, want));
  };
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    const size_t at = row * columns;
    double mean = 0, var = 0, sum = 0, product = 0;
    for (size_t k = 0; k < columns; ++k) {
      if (has_branch) check(s[at + k], x[at + k] + branch[at + k], types.x);
      mean += stream[at + k] / static_cast<double>(size);
    }
    for (size_t k = 0; k < columns; ++k)
      var += (stream[at + k] - mean) * (stream[at + k] - mean) / static_cast<double>(size);
    const double rstd = 1 / std::sqrt(var + kEps);
    const auto z = [&](size_t k) { return (stream[at + k] - mean) * rstd; };
    for (size_t k = 0; k < columns; ++k) {
      check(y[at + k], z(k) * scale[k] + bias[k], types.y);
      dscale[k] += grad[at + k] * z(k);
      dbias[k] += grad[at + k];
      sum += grad[at + k] * scale[k] / static_cast<double>(size);
      product += grad[at + k] * scale[k] * z(k) / static_cast<double>(size);
    }
    for (size_t k = 0; k < columns; ++k) {
      const double want = (grad[at + k] * scale[k] - sum - z(k) * product) * rstd +
                          (has_branch ? grad_sum[at + k] : 0);
      check(dx[at + k], want, types.x);
      if (has_branch) check(dbranch[at + k], want, types.branch);
    }
  }
  for (size_t k = 0; k < columns; ++k) {
    check(dparams[k], dscale[k], false);
    check(dparams[columns + k], dbias[k], false);
  }
  CHECK(worst <= 1);
}

TEST_CASE("the kernels of layer normalisation: rows of every size, within their buffers") {
  constexpr Types kTypes = {.x = false, .branch = true, .y = true};
  for (const int64_t size : {4, 132, 384, 512, 768, 1000, 1280, 1664, 2048})
    compare_layer_norm(/*rows=*/9, size, kTypes, /*has_branch=*/true, Guard::behind);
  compare_layer_norm(/*rows=*/9, 132, kTypes, /*has_branch=*/true, Guard::before);
}

TEST_CASE("the kernels of layer normalisation: types, with and without an addition") {
  for (const bool has_branch : {false, true}) {
    for (const bool x : {false, true})
      for (const bool branch : {false, true})
        for (const bool y : {false, true})
          compare_layer_norm(/*rows=*/3, 72, {x, branch, y}, has_branch, Guard::behind);
  }
}

TEST_CASE("the kernels of layer normalisation: blocks that take several turns") {
  compare_layer_norm(/*rows=*/2 * 2 * kWarps + 3, 8, {false, false, false}, true, Guard::behind,
                     /*blocks=*/2);
}

}  // namespace
}  // namespace bv
