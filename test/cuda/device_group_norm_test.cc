// Group normalisation and weight standardisation on a GPU, with their gradients, against LibTorch
// in float64.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "lib/model/kernels/channels_last.h"
#include "lib/model/kernels/group_norm.h"
#include "lib/model/kernels/standardize.h"
#include "test/cuda/gpu_runs.h"

namespace bv {
namespace {

using test::distance;
using test::kGpu;

struct GroupNormInputs {
  at::Tensor x, shortcut, scale, bias, grad, rounded_grad;

  GroupNormInputs to(const at::TensorOptions& options, at::ScalarType x_type) const {
    const auto leaf = [&](const at::Tensor& tensor, at::ScalarType type) {
      return tensor.to(options.dtype(type)).detach().requires_grad_();
    };
    const at::ScalarType type = at::typeMetaToScalarType(options.dtype());
    return {leaf(x, x_type),  leaf(shortcut, type), leaf(scale, type),
            leaf(bias, type), grad.to(options),     rounded_grad.to(options)};
  }
  std::vector<at::Tensor> gradients() const {
    return {x.grad(), shortcut.grad(), scale.grad(), bias.grad()};
  }
};

GroupNormInputs group_norm_inputs(at::IntArrayRef shape) {
  const auto generator = at::detail::createCPUGenerator(1);
  const auto draw = [&](at::IntArrayRef sizes) {
    return at::randn(sizes, generator, at::kFloat).to(at::kBFloat16).to(at::kFloat);
  };
  const auto image = [&] { return draw(shape).contiguous(kChannelsLast); };
  const int64_t c = shape[1];
  return {(image() + 1).to(at::kBFloat16).to(at::kFloat),
          image(),
          draw({c}),
          draw({c}),
          image(),
          image()};
}

void compare_gradients(const GroupNormInputs& got, const GroupNormInputs& want) {
  const auto gradients = got.gradients(), expected = want.gradients();
  for (size_t i = 0; i < gradients.size(); ++i) {
    INFO("gradient " << i);
    REQUIRE(gradients[i].defined() == expected[i].defined());
    if (expected[i].defined()) CHECK(distance(gradients[i], expected[i]) < 4e-3);
  }
  CHECK(got.x.grad().is_contiguous(kChannelsLast));
}

constexpr int64_t kGroups = 32;
constexpr double kDeviceEps = 1e-6;

const std::vector<std::vector<int64_t>> kImageShapes = {
    {2, 64, 30, 31}, {3, 256, 7, 9}, {2, 2048, 7, 7}};

TEST_CASE("group normalisation with a ReLU on a device as in float64", "[gpu]") {
  if (!test::gpu()) return;
  for (const auto& shape : kImageShapes) {
    for (const auto from : {at::kFloat, at::kBFloat16}) {
      for (const auto type : {at::kFloat, at::kBFloat16}) {
        INFO(shape[1] << " channels, " << from << " to " << type);
        const GroupNormInputs all = group_norm_inputs(shape);
        const GroupNormInputs got = all.to(at::TensorOptions(kGpu).dtype(at::kFloat), from);
        REQUIRE(group_norm_fits(got.x));
        const at::Tensor y =
            fused_group_norm(got.x, kGroups, got.scale, got.bias, kDeviceEps, NormTail::relu, type);
        CHECK(y.scalar_type() == type);
        CHECK(y.is_contiguous(kChannelsLast));
        y.backward(got.grad.to(type));
        const GroupNormInputs want = all.to(at::TensorOptions(at::kDouble), at::kDouble);
        const at::Tensor wide =
            at::relu(at::group_norm(want.x, kGroups, want.scale, want.bias, kDeviceEps));
        wide.backward(want.grad.to(type).to(at::kDouble));
        CHECK(distance(y, wide) < (type == at::kFloat ? 1e-6 : 4e-3));
        compare_gradients(got, want);
      }
    }
  }
}

TEST_CASE("the residual sum of group normalisation on a device as in float64", "[gpu]") {
  if (!test::gpu()) return;
  for (const auto& shape : kImageShapes) {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      for (const bool uses_sum : {false, true}) {
        for (const bool uses_rounded : {false, true}) {
          if (!uses_sum && !uses_rounded) continue;
          INFO(shape[1] << " channels, " << type << ", uses the sum: " << uses_sum
                        << ", its rounded copy: " << uses_rounded);
          const GroupNormInputs all = group_norm_inputs(shape);
          const GroupNormInputs got = all.to(at::TensorOptions(kGpu).dtype(at::kFloat), type);
          const auto [sum, rounded] = fused_group_norm_add_relu(got.x, kGroups, got.scale, got.bias,
                                                                kDeviceEps, got.shortcut, type);
          CHECK(rounded.scalar_type() == type);
          CHECK(rounded.equal(sum.to(type)));
          const GroupNormInputs want = all.to(at::TensorOptions(at::kDouble), at::kDouble);
          const at::Tensor wide = at::relu(
              want.shortcut + at::group_norm(want.x, kGroups, want.scale, want.bias, kDeviceEps));
          CHECK(distance(sum, wide) < 1e-6);
          at::Tensor got_loss = at::zeros({}, at::TensorOptions(kGpu)),
                     want_loss = at::zeros({}, at::kDouble);
          if (uses_sum) {
            got_loss = got_loss + (sum * got.grad).sum();
            want_loss = want_loss + (wide * want.grad).sum();
          }
          if (uses_rounded) {
            got_loss = got_loss + (rounded.to(at::kFloat) * got.rounded_grad).sum();
            want_loss = want_loss + (wide * want.rounded_grad).sum();
          }
          got_loss.backward();
          want_loss.backward();
          compare_gradients(got, want);
        }
      }
    }
  }
}

TEST_CASE("weight standardisation on a device as in float64, in memory for convolutions", "[gpu]") {
  if (!test::gpu()) return;
  const auto generator = at::detail::createCPUGenerator(1);
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{64, 7, 7, 3}, {96, 1, 1, 64}, {48, 3, 3, 128}}) {
    for (const auto rule : {StandardizeRule::bit, StandardizeRule::bit_paper}) {
      for (const auto type : {at::kFloat, at::kBFloat16}) {
        const at::Tensor rows = at::randn(shape, generator, at::kFloat) + 0.5;
        const at::Tensor kernel = rows.to(kGpu).permute({1, 2, 3, 0}).requires_grad_();
        const at::Tensor wide = rows.to(at::kDouble).permute({1, 2, 3, 0}).requires_grad_();
        const at::Tensor y = standardize(kernel, rule, type);
        const at::Tensor want = standardize(wide, rule, at::kDouble);
        CHECK(y.scalar_type() == type);
        CHECK(distance(y, want) < (type == at::kFloat ? 1e-6 : 4e-3));
        // cuDNN takes it without a copy.
        const at::Tensor weight = y.permute({3, 2, 0, 1});
        CHECK(weight.suggest_memory_format() == kChannelsLast);
        CHECK(weight.is_contiguous(kChannelsLast));
        const at::Tensor grad = at::randn(want.sizes(), generator, at::kFloat).to(type);
        y.backward(grad.to(kGpu));
        want.backward(grad.to(at::kDouble));
        CHECK(kernel.grad().strides() == kernel.strides());
        CHECK(distance(kernel.grad(), wide.grad()) < 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace bv
