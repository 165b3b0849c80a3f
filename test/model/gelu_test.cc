// tanh_gelu() against its formula in float64.
#include "lib/model/kernels/gelu.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>
#include <limits>

namespace bv::test {
namespace {

// Returns gelu(x) and its derivative times `grad`, both float64.
std::pair<at::Tensor, at::Tensor> in_float64(const at::Tensor& given, const at::Tensor& grad) {
  const at::Tensor x = given.to(at::kDouble);
  const double root = std::sqrt(2 / M_PI);
  const at::Tensor u = root * (x + 0.044715 * x.pow(3));
  const at::Tensor gate = at::sigmoid(2 * u);
  const at::Tensor slope = gate + x * gate * (1 - gate) * 2 * root * (1 + 3 * 0.044715 * x.pow(2));
  return {x * gate, grad.to(at::kDouble) * slope};
}

// Returns gelu(x) and the gradient of x.
std::pair<at::Tensor, at::Tensor> gelu_and_gradient(const at::Tensor& given,
                                                    const at::Tensor& grad) {
  const at::Tensor x = given.detach().clone().requires_grad_();
  const at::Tensor y = tanh_gelu(x);
  torch::autograd::backward({y}, {grad});
  return {y.detach(), x.grad()};
}

// The error of a relative to max(|b|, floor).
double error(const at::Tensor& a, const at::Tensor& b, double floor) {
  return ((a.to(at::kDouble) - b).abs() / b.abs().clamp_min(floor)).max().item<double>();
}

}  // namespace

TEST_CASE("gelu agrees with its formula, forward and backward") {
  const at::Tensor x = at::linspace(-12, 12, 100'003, at::kFloat);
  const at::Tensor grad = at::sin(at::arange(x.numel(), at::kFloat)) + 1.5;
  const auto [y, dx] = gelu_and_gradient(x, grad);
  const auto [wanted, wanted_dx] = in_float64(x, grad);
  CHECK(error(y, wanted, 1e-6) < 4e-6);
  CHECK(error(dx, wanted_dx, 1e-2) < 2e-5);  // it crosses zero near -0.75

  const at::Tensor half = x.to(at::kBFloat16), half_grad = grad.to(at::kBFloat16);
  const auto [half_y, half_dx] = gelu_and_gradient(half, half_grad);
  const auto [half_wanted, half_wanted_dx] = in_float64(half, half_grad);
  CHECK(half_y.scalar_type() == at::kBFloat16);
  CHECK(error(half_y, half_wanted, 1e-6) < 0x1p-8);
  CHECK(error(half_dx, half_wanted_dx, 1e-2) < 0x1p-8);
}

TEST_CASE("gelu of any size and layout, as LibTorch's") {
  for (const int64_t n : {0, 1, 15, 16, 17, 31, 196, 197, 40'001}) {
    const at::Tensor x = at::randn({n}), grad = at::randn({n});
    const auto [y, dx] = gelu_and_gradient(x, grad);
    CHECK(at::allclose(y, at::gelu(x, "tanh"), 1e-5, 1e-6));
    CHECK(at::allclose(dx, at::gelu_backward(grad, x, "tanh"), 1e-5, 1e-6));
  }
  const at::Tensor strided = at::randn({30, 40}).t();
  CHECK(at::allclose(tanh_gelu(strided), at::gelu(strided, "tanh"), 1e-5, 1e-6));
  const at::Tensor x = at::randn({4, 16});
  const auto [y, dx] =
      gelu_and_gradient(x, at::ones({1}).expand({4, 16}));  // a gradient without memory
  CHECK(at::allclose(dx, at::gelu_backward(at::ones({4, 16}), x, "tanh"), 1e-5, 1e-6));
}

TEST_CASE("gelu keeps what is not finite") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor y = tanh_gelu(at::tensor({kNan, kInf, 1e30f, -1e30f, 3e38f}));
  CHECK(std::isnan(y[0].item<float>()));
  CHECK(y[1].item<float>() == kInf);
  CHECK(y[2].item<float>() == 1e30f);
  CHECK(std::abs(y[3].item<float>()) < 1e-6);
  CHECK(y[4].item<float>() == 3e38f);
  CHECK(tanh_gelu(at::tensor({-3e38f})).item<float>() == 0);
  const auto [out, dx] = gelu_and_gradient(at::tensor({kNan, 1.0f}), at::ones({2}));
  CHECK(std::isnan(dx[0].item<float>()));
  CHECK(std::isfinite(dx[1].item<float>()));
  const auto [large, slope] = gelu_and_gradient(at::tensor({1e15f, -1e15f}), at::ones({2}));
  CHECK(slope[0].item<float>() == 1);
  CHECK(slope[1].item<float>() == 0);
}

}  // namespace bv::test
