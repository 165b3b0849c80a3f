// Compares the fused kernels with the same formulas in LibTorch's operations.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "lib/device/cpu_isa.h"
#include "lib/model/kernels/batch_norm.h"
#include "lib/model/kernels/channels_last.h"
#include "lib/model/kernels/conv_relu_avg_pool.h"
#include "lib/model/kernels/relu_avg_pool.h"
#include "test/model/against_formula.h"

namespace bv::test {
namespace {

at::Tensor image_noise(std::vector<int64_t> shape, at::ScalarType type, uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  const at::Tensor x = at::randn(shape, generator, at::kFloat).to(type);
  return x.dim() == 4 ? x.contiguous(kChannelsLast) : x;
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kFloat) - b.to(at::kFloat)).abs().max().item<double>();
}

const double kBf16 = 0x1p-8;  // half a unit in the last place, relative to the value below

TEST_CASE("kernels use the instructions that the environment asks for") {
  const char* const asked = std::getenv("ATEN_CPU_CAPABILITY");
  const std::string set = asked == nullptr ? "" : asked;
  if (set == "default") CHECK(cpu_isa() == CpuIsa::baseline);
  if (set == "avx2") CHECK(cpu_isa() <= CpuIsa::avx2);
}

TEST_CASE("relu_avg_pool has the bits of relu and avg_pool2d, with odd sizes and NaN too") {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t width : {8, 7}) {
      const at::Tensor x = leaf(image_noise({3, 32, 6, width}, type, 1));
      const at::Tensor grad = image_noise({3, 32, 3, width / 2}, type, 2);
      const at::Tensor ours = relu_avg_pool(x), y = leaf(x);
      const at::Tensor theirs = at::avg_pool2d(at::relu(y), 2);
      CHECK(ours.is_contiguous(kChannelsLast));
      CHECK(ours.equal(theirs));
      ours.backward(grad);
      theirs.backward(grad);
      CHECK(x.grad().equal(y.grad()));
    }
    at::Tensor x = image_noise({1, 16, 2, 2}, type, 1);
    x.index_put_({at::tensor(0), at::tensor(3), at::tensor(0), at::tensor(1)},
                 at::tensor(NAN).to(type));
    const at::Tensor y = relu_avg_pool(x);
    CHECK(y.isnan().sum().item<int64_t>() == 1);
    CHECK(y[0][3].isnan().all().item<bool>());
  }
}

TEST_CASE("relu_avg_pool also takes channels and layouts for which there is no kernel") {
  const at::Tensor odd = image_noise({2, 5, 4, 4}, at::kFloat, 1);
  CHECK(relu_avg_pool(odd).equal(at::avg_pool2d(at::relu(odd), 2)));
  const at::Tensor planar = image_noise({2, 16, 4, 4}, at::kFloat, 1).contiguous();
  CHECK(relu_avg_pool(planar).equal(at::avg_pool2d(at::relu(planar), 2)));
}

TEST_CASE("conv_relu_avg_pool is a convolution, relu and avg_pool2d") {
  for (const int64_t channels : {1, 3}) {
    for (const int64_t size : {8, 9}) {
      const at::Tensor x = image_noise({6, channels, size, 10}, at::kFloat, 3);
      const at::Tensor kernel = leaf(image_noise({3, 3, channels, 32}, at::kFloat, 4).contiguous());
      const at::Tensor bias = leaf(image_noise({32}, at::kFloat, 5));
      REQUIRE(conv_relu_avg_pool_fits(x, kernel));
      const at::Tensor grad = image_noise({6, 32, size / 2, 5}, at::kFloat, 6);
      const at::Tensor ours = conv_relu_avg_pool(x, kernel, bias, at::kFloat);
      const at::Tensor k = leaf(kernel), b = leaf(bias);
      const at::Tensor theirs =
          at::avg_pool2d(at::relu(at::conv2d(x, k.permute({3, 2, 0, 1}), b, 1, 1)), 2);
      CHECK(difference(ours, theirs) < 1e-5);
      ours.backward(grad);
      theirs.backward(grad);
      CHECK(difference(kernel.grad(), k.grad()) < 1e-4);
      CHECK(difference(bias.grad(), b.grad()) < 1e-4);
    }
  }
}

TEST_CASE("conv_relu_avg_pool in bfloat16 rounds its inputs and its result, nothing else") {
  const at::Tensor x = image_noise({5, 1, 8, 8}, at::kFloat, 3);
  const at::Tensor kernel = leaf(image_noise({3, 3, 1, 16}, at::kFloat, 4).contiguous());
  const at::Tensor bias = leaf(image_noise({16}, at::kFloat, 5));
  const auto rounded = [](const at::Tensor& t) { return t.to(at::kBFloat16).to(at::kFloat); };
  const at::Tensor k = leaf(rounded(kernel));
  const at::Tensor exact =
      at::avg_pool2d(at::relu(at::conv2d(rounded(x), k.permute({3, 2, 0, 1}), bias, 1, 1)), 2);
  const at::Tensor ours = conv_relu_avg_pool(x, kernel, bias, at::kBFloat16);
  CHECK(ours.scalar_type() == at::kBFloat16);
  CHECK(((ours.to(at::kFloat) - exact).abs() <= exact * kBf16 + 1e-6).all().item<bool>());
  const at::Tensor grad = image_noise({5, 16, 4, 4}, at::kBFloat16, 6);
  ours.backward(grad);
  exact.backward(grad.to(at::kFloat));
  CHECK(difference(kernel.grad(), k.grad()) < 1e-4);
}

TEST_CASE("conv_relu_avg_pool refuses what it has no kernel for") {
  const at::Tensor x = image_noise({2, 1, 4, 4}, at::kFloat, 1);
  CHECK_FALSE(conv_relu_avg_pool_fits(x, at::zeros({5, 5, 1, 16})));
  CHECK_FALSE(conv_relu_avg_pool_fits(x, at::zeros({3, 3, 1, 20})));
  CHECK_FALSE(
      conv_relu_avg_pool_fits(image_noise({2, 2, 4, 4}, at::kFloat, 1), at::zeros({3, 3, 2, 16})));
  CHECK_FALSE(conv_relu_avg_pool_fits(leaf(x), at::zeros({3, 3, 1, 16})));
}

struct BatchNormed {
  at::Tensor y, dx, dscale, dbias;
};

BatchNormed fused_batch_norm(const at::Tensor& x0, const at::Tensor& scale0,
                             const at::Tensor& bias0, const at::Tensor& grad, bool pool) {
  const at::Tensor x = leaf(x0), scale = leaf(scale0), bias = leaf(bias0);
  const at::Tensor y = batch_norm_relu(x, scale, bias, batch_statistics(x), 1e-5, pool);
  y.backward(grad);
  return {y, x.grad(), scale.grad(), bias.grad()};
}

BatchNormed torch_batch_norm(const at::Tensor& x0, const at::Tensor& scale0,
                             const at::Tensor& bias0, const at::Tensor& grad, bool pool) {
  const at::Tensor x = leaf(x0), scale = leaf(scale0), bias = leaf(bias0);
  at::Tensor y = at::relu(at::batch_norm(x, scale, bias, {}, {}, true, 0.1, 1e-5, false));
  if (pool) y = at::max_pool2d(y, 2);
  y.backward(grad);
  return {y, x.grad(), scale.grad(), bias.grad()};
}

TEST_CASE("batch_norm_relu is batch_norm, relu and max_pool2d") {
  const at::Tensor scale = image_noise({48}, at::kFloat, 2),
                   bias = image_noise({48}, at::kFloat, 3);
  for (const bool pool : {false, true}) {
    // The values are far from zero, so that the variance is a difference of large numbers.
    const at::Tensor x = image_noise({20, 48, 10, 12}, at::kFloat, 1) * 2 + 10;
    const at::Tensor grad = image_noise({20, 48, pool ? 5 : 10, pool ? 6 : 12}, at::kFloat, 4);
    REQUIRE(batch_norm_fits(x, pool));
    const BatchNormed a = fused_batch_norm(x, scale, bias, grad, pool),
                      b = torch_batch_norm(x, scale, bias, grad, pool);
    CHECK(a.y.is_contiguous(kChannelsLast));
    CHECK(difference(a.y, b.y) < 1e-4);
    // Rounding may move an output near zero to the other side.
    CHECK(((a.dx - b.dx).abs() > 1e-4).sum().item<int64_t>() <= 2);
    CHECK(difference(a.dscale, b.dscale) < 5e-3);
    CHECK(difference(a.dbias, b.dbias) < 5e-3);
  }
}

TEST_CASE("batch_norm_relu in bfloat16 rounds its result, nothing else") {
  const at::Tensor scale = image_noise({32}, at::kFloat, 2),
                   bias = image_noise({32}, at::kFloat, 3);
  for (const bool pool : {false, true}) {
    const at::Tensor x = image_noise({9, 32, 8, 8}, at::kBFloat16, 1);
    const at::Tensor grad = image_noise({9, 32, pool ? 4 : 8, pool ? 4 : 8}, at::kBFloat16, 4);
    const BatchNormed a = fused_batch_norm(x, scale, bias, grad, pool);
    const BatchNormed b =
        fused_batch_norm(x.to(at::kFloat), scale, bias, grad.to(at::kFloat), pool);
    CHECK(a.y.scalar_type() == at::kBFloat16);
    CHECK(((a.y - b.y).abs() <= b.y * kBf16 + 1e-6).all().item<bool>());
    CHECK(((a.dx - b.dx).abs() <= b.dx.abs() * kBf16 + 1e-6).all().item<bool>());
    CHECK(difference(a.dscale, b.dscale) < 1e-4);
    CHECK(difference(a.dbias, b.dbias) < 1e-4);
  }
}

TEST_CASE("one large value in the first corner does not cost the statistics their digits") {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor x = image_noise({4, 48, 31, 29}, type, 1);
    x.select(0, 0).select(1, 0).select(1, 0).fill_(4096);
    REQUIRE(batch_norm_fits(x, false));
    const BatchStatistics statistics = batch_statistics(x);
    const at::Tensor exact = x.to(at::kDouble);
    const at::Tensor var = exact.var({0, 2, 3}, /*unbiased=*/false);
    CHECK(difference(statistics.mean / var.sqrt(), exact.mean({0, 2, 3}) / var.sqrt()) < 2e-6);
    CHECK(difference(statistics.var / var, at::ones({48})) < 2e-5);
  }
}

TEST_CASE("statistics are exact to float32 and do not depend on threads") {
  const at::Tensor x = image_noise({40, 16, 31, 29}, at::kFloat, 1) * 3 - 30;
  const BatchStatistics statistics = batch_statistics(x);
  const at::Tensor exact = x.to(at::kDouble);
  CHECK(difference(statistics.mean, exact.mean({0, 2, 3})) < 1e-5);
  CHECK(difference(statistics.var, exact.var({0, 2, 3}, /*unbiased=*/false)) < 1e-3);
  const at::Tensor scale = image_noise({16}, at::kFloat, 2),
                   bias = image_noise({16}, at::kFloat, 3);
  const at::Tensor grad = image_noise({40, 16, 31, 29}, at::kFloat, 4);
  const BatchNormed before = fused_batch_norm(x, scale, bias, grad, false);
  const int threads = at::get_num_threads();
  for (const int count : {1, 3}) {
    at::set_num_threads(count);
    const BatchNormed after = fused_batch_norm(x, scale, bias, grad, false);
    CHECK(after.y.equal(before.y));
    CHECK(after.dx.equal(before.dx));
    CHECK(after.dscale.equal(before.dscale));
    CHECK(after.dbias.equal(before.dbias));
  }
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace bv::test
