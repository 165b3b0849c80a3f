// The token-mixing MLP on a GPU, with its gradients, against LibTorch in float64.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "lib/model/kernels/device/device_token_mlp.h"
#include "test/cuda/gpu_runs.h"

namespace bv {
namespace {

using test::kGpu;

TEST_CASE("the MLP over tokens on a device as in float64", "[gpu]") {
  if (!test::gpu()) return;
  for (const int64_t tokens : {9, 196}) {
    INFO(tokens << " tokens");
    constexpr int64_t kN = 3, kHidden = 40, kFeatures = 24;
    const auto generator = at::detail::createCPUGenerator(1);
    const auto draw = [&](at::IntArrayRef sizes, double size) {
      const at::Tensor wide = at::randn(sizes, generator, at::kFloat) * size;
      return wide.to(at::kBFloat16).to(at::kFloat);
    };
    // Kernels are stored as (out, in).
    const std::vector<at::Tensor> inputs = {draw({kN, tokens, kFeatures}, 1),
                                            draw({kHidden, tokens}, 0.2).t(), draw({kHidden}, 0.5),
                                            draw({tokens, kHidden}, 0.2).t(), draw({tokens}, 0.5)};
    const at::Tensor grad = draw({kN, tokens, kFeatures}, 1);
    std::vector<at::Tensor> got, want;
    for (const at::Tensor& input : inputs) {
      got.push_back(input.to(kGpu).detach().requires_grad_());
      want.push_back(input.to(at::kDouble).detach().requires_grad_());
    }
    REQUIRE(device_token_mlp_fits(got[0].to(at::kBFloat16), kHidden));
    const at::Tensor y = device_token_mlp(got[0].to(at::kBFloat16), got[1], got[2], got[3], got[4]);
    const at::Tensor hidden =
        at::gelu(at::matmul(want[0].transpose(1, 2), want[1]) + want[2], "tanh");
    const at::Tensor wide = (at::matmul(hidden, want[3]) + want[4]).transpose(1, 2);
    const auto distance = [](const at::Tensor& a, const at::Tensor& b) {
      return ((a.detach().cpu().to(at::kDouble) - b).norm() / b.norm()).item<double>();
    };
    CHECK(distance(y, wide.detach()) < 1e-2);
    y.backward(grad.to(kGpu).to(at::kBFloat16));
    wide.backward(grad.to(at::kDouble));
    for (size_t i = 0; i < got.size(); ++i) {
      INFO("gradient " << i);
      CHECK(distance(got[i].grad(), want[i].grad()) < 1e-2);
    }
  }
}

}  // namespace
}  // namespace bv
