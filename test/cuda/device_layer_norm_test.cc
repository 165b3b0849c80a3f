// Layer normalisation on a GPU, with its gradients, against LibTorch in float64.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "lib/model/kernels/layer_norm.h"
#include "test/cuda/gpu_runs.h"

namespace bv {
namespace {

using test::distance;
using test::kGpu;

struct LayerNormInputs {
  at::Tensor x, branch, scale, bias, grad_sum, grad;

  LayerNormInputs to(const at::TensorOptions& options, at::ScalarType branch_type) const {
    const auto leaf = [&](const at::Tensor& tensor, at::ScalarType type) {
      return tensor.to(options.dtype(type)).detach().requires_grad_();
    };
    const at::ScalarType type = at::typeMetaToScalarType(options.dtype());
    return {leaf(x, type),    leaf(branch, branch_type), leaf(scale, type),
            leaf(bias, type), grad_sum.to(options),      grad.to(options)};
  }
  std::vector<at::Tensor> gradients() const {
    return {x.grad(), branch.grad(), scale.grad(), bias.grad()};
  }
};

LayerNormInputs layer_norm_inputs(at::IntArrayRef shape) {
  const auto generator = at::detail::createCPUGenerator(1);
  const auto draw = [&](at::IntArrayRef sizes) { return at::randn(sizes, generator, at::kFloat); };
  const int64_t size = shape.back();
  return {draw(shape) + 1, draw(shape).to(at::kBFloat16).to(at::kFloat),
          draw({size}),    draw({size}),
          draw(shape),     draw(shape)};
}

TEST_CASE("a branch is added and normalised on a device as in float64", "[gpu]") {
  if (!test::gpu()) return;
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const bool uses_sum : {false, true}) {
      for (const bool uses_norm : {false, true}) {
        if (!uses_sum && !uses_norm) continue;
        INFO(type << ", uses the sum: " << uses_sum << ", the norm: " << uses_norm);
        const LayerNormInputs all = layer_norm_inputs({3, 5, 96});
        LayerNormInputs got = all.to(at::TensorOptions(kGpu).dtype(at::kFloat), at::kBFloat16);
        const auto [sum, y] =
            add_layer_norm(got.x, got.branch, got.scale, got.bias, /*eps=*/1e-6, type);
        CHECK(y.scalar_type() == type);
        const LayerNormInputs want = all.to(at::TensorOptions(at::kDouble), at::kDouble);
        const at::Tensor wide = want.x + want.branch;
        const at::Tensor norm = at::layer_norm(wide, {96}, want.scale, want.bias, 1e-6);
        CHECK(distance(sum, wide) < 1e-6);
        CHECK(distance(y, norm) < (type == at::kFloat ? 1e-6 : 4e-3));
        at::Tensor got_loss = at::zeros({}, at::TensorOptions(kGpu)),
                   want_loss = at::zeros({}, at::kDouble);
        if (uses_sum) {
          got_loss = got_loss + (sum * got.grad_sum).sum();
          want_loss = want_loss + (wide * want.grad_sum).sum();
        }
        if (uses_norm) {
          got_loss = got_loss + (y.to(at::kFloat) * got.grad).sum();
          want_loss = want_loss + (norm * want.grad).sum();
        }
        got_loss.backward();
        want_loss.backward();
        const auto gradients = got.gradients(), expected = want.gradients();
        CHECK(gradients[1].scalar_type() == at::kBFloat16);
        for (size_t i = 0; i < gradients.size(); ++i) {
          INFO("gradient " << i);
          REQUIRE(gradients[i].defined() == expected[i].defined());
          if (expected[i].defined()) CHECK(distance(gradients[i], expected[i]) < 4e-3);
        }
      }
    }
  }
}

TEST_CASE("layer normalisation on a device alone: of both types, and of rows that no kernel fits",
          "[gpu]") {
  if (!test::gpu()) return;
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t size : {96, 97, 2048, 2052}) {
      INFO(type << ", " << size);
      const LayerNormInputs all = layer_norm_inputs({7, size});
      const at::Tensor x = all.x.to(type).to(kGpu).requires_grad_();
      const at::Tensor y =
          layer_norm(x, all.scale.to(kGpu), all.bias.to(kGpu), /*eps=*/1e-6, at::kFloat);
      const at::Tensor wide = all.x.to(type).to(at::kDouble).requires_grad_();
      const at::Tensor norm =
          at::layer_norm(wide, {size}, all.scale.to(at::kDouble), all.bias.to(at::kDouble), 1e-6);
      CHECK(distance(y, norm) < 1e-6);
      y.backward(all.grad.to(kGpu));
      norm.backward(all.grad.to(at::kDouble));
      CHECK(distance(x.grad(), wide.grad()) < (type == at::kFloat ? 1e-5 : 4e-3));
    }
  }
}

TEST_CASE("layer normalisation on a device of a view that begins in between", "[gpu]") {
  if (!test::gpu()) return;
  const LayerNormInputs all = layer_norm_inputs({7, 96});
  const at::Tensor buffer = at::zeros({7 * 96 + 1}, at::TensorOptions(kGpu));
  const at::Tensor view = buffer.narrow(0, 1, 7 * 96).view({7, 96});
  view.copy_(all.x);
  const at::Tensor scale = all.scale.to(kGpu), bias = all.bias.to(kGpu);
  const at::Tensor y = layer_norm(view, scale, bias, /*eps=*/1e-6, at::kFloat);
  CHECK(y.equal(layer_norm(all.x.to(kGpu), scale, bias, /*eps=*/1e-6, at::kFloat)));
}

}  // namespace
}  // namespace bv
