// winograd_conv() against the convolution in float64, forward and backward.
#include "lib/model/kernels/winograd_conv.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>

namespace bv::test {
namespace {

using Tensors = std::vector<at::Tensor>;
constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

at::Tensor noise(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::kFloat);
}

struct Sizes {
  int64_t n, h, w, in, out;
};

// Returns x, kernel, bias and a gradient of the result. x and the gradient have `type`.
Tensors operands(const Sizes& s, at::ScalarType type) {
  return {noise({s.n, s.in, s.h, s.w}, 1).to(type).contiguous(kChannelsLast),
          noise({s.out, 3, 3, s.in}, 2).permute({1, 2, 3, 0}), noise({s.out}, 3),
          noise({s.n, s.out, s.h, s.w}, 4).to(type)};
}

at::Tensor convolved(const Tensors& in) {
  return at::conv2d(in[0], in[1].permute({3, 2, 0, 1}), in[2], 1, 1);
}

// Returns the result of f(x, kernel, bias) and the gradients of its arguments.
template <class F>
Tensors results(const F& f, const Tensors& all) {
  Tensors inputs;
  for (size_t i = 0; i < 3; ++i) inputs.push_back(all[i].detach().requires_grad_());
  const at::Tensor y = f(inputs);
  Tensors out = torch::autograd::grad({y}, inputs, {all[3].to(y.scalar_type())});
  out.insert(out.begin(), y.detach());
  return out;
}

Tensors ours(const Tensors& all, at::ScalarType type) {
  return results([&](const Tensors& in) { return winograd_conv(in[0], in[1], in[2], type); }, all);
}

// `rounded`: with the kernel as a network in bfloat16 has it.
Tensors exact(const Tensors& all, at::ScalarType rounded) {
  Tensors wide;
  for (const at::Tensor& each : all) wide.push_back(each.to(at::kDouble));
  wide[1] = all[1].to(rounded).to(at::kDouble);
  return results(convolved, wide);
}

// The root of the mean squared distance, in parts of that of the exact value from 0.
double error(const at::Tensor& found, const at::Tensor& exact) {
  const at::Tensor distance = found.to(at::kDouble) - exact;
  return (distance.square().mean().sqrt() / exact.square().mean().sqrt()).item<double>();
}

// Whether this CPU has a kernel for the type.
bool has_products(at::ScalarType type) {
  return winograd_conv_fits(at::empty({8, 64, 8, 8}), at::empty({3, 3, 64, 64}), type);
}

TEST_CASE("winograd_conv and its gradients are those of the convolution") {
  // Images that tiles fit or reach over, one pixel, one row; channels in one vector, in one block,
  // in several blocks. 40 x 16 x 16 has several ranges of tiles.
  for (const Sizes& s : {Sizes{2, 8, 8, 16, 16},
                         {3, 5, 7, 48, 32},
                         {2, 1, 1, 16, 32},
                         {1, 1, 9, 32, 16},
                         {40, 16, 16, 16, 32},
                         {2, 6, 3, 272, 144}}) {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      CAPTURE(s.n, s.h, s.w, s.in, s.out, type);
      const Tensors all = operands(s, type);
      if (!has_products(type)) continue;
      const Tensors found = ours(all, type), right = exact(all, type);
      CHECK(found[0].scalar_type() == type);
      CHECK(found[0].is_contiguous(kChannelsLast));
      CHECK(found[1].scalar_type() == type);
      CHECK(found[2].scalar_type() == at::kFloat);
      const double unit = type == at::kFloat ? 2e-6 : 8e-3;
      for (size_t i = 0; i < found.size(); ++i) {
        CAPTURE(i);
        CHECK(found[i].sizes() == right[i].sizes());
        CHECK(error(found[i], right[i]) < unit);
      }
    }
  }
}

TEST_CASE("winograd_conv is as exact as LibTorch's convolution in float32") {
  const Tensors all = operands({4, 16, 16, 128, 128}, at::kFloat);
  if (!has_products(at::kFloat)) return;
  const Tensors right = exact(all, at::kFloat), theirs = results(convolved, all);
  const Tensors found = ours(all, at::kFloat);
  for (size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(error(found[i], right[i]) < 2 * error(theirs[i], right[i]));
  }
}

TEST_CASE("winograd_conv has the same bits with any number of threads") {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const Tensors all = operands({40, 15, 16, 32, 48}, type);
    if (!has_products(type)) continue;
    const int threads = at::get_num_threads();
    at::set_num_threads(1);
    const Tensors one = ours(all, type);
    at::set_num_threads(3);
    const Tensors three = ours(all, type);
    at::set_num_threads(threads);
    for (size_t i = 0; i < one.size(); ++i) CHECK(one[i].equal(three[i]));
  }
}

TEST_CASE("winograd_conv computes each image alone") {
  Tensors all = operands({3, 5, 5, 16, 16}, at::kFloat);
  const at::Tensor before = winograd_conv(all[0], all[1], all[2], at::kFloat);
  all[0][1].fill_(NAN);
  const at::Tensor after = winograd_conv(all[0], all[1], all[2], at::kFloat);
  CHECK(after[0].equal(before[0]));
  CHECK(after[1].isnan().all().item<bool>());
  CHECK(after[2].equal(before[2]));
}

TEST_CASE("winograd_conv_fits refuses what there is no kernel for, or where it is not faster") {
  const at::Tensor x = noise({8, 64, 8, 8}, 1);
  const auto kernel = [](int64_t size, int64_t in, int64_t out) {
    return at::empty({size, size, in, out}, at::kFloat);
  };
  CHECK(winograd_conv_fits(x, kernel(3, 64, 96), at::kFloat));
  CHECK_FALSE(winograd_conv_fits(x, kernel(5, 64, 96), at::kFloat));
  CHECK_FALSE(winograd_conv_fits(x, kernel(3, 64, 72), at::kFloat));
  CHECK_FALSE(winograd_conv_fits(x, kernel(3, 64, 272), at::kFloat));  // 17 blocks of 16
  CHECK_FALSE(winograd_conv_fits(x, kernel(3, 64, 48), at::kFloat));
  CHECK_FALSE(winograd_conv_fits(x, kernel(3, 64, 96), at::kDouble));
  CHECK_FALSE(winograd_conv_fits(x.narrow(0, 0, 0), kernel(3, 64, 96), at::kFloat));
  CHECK_FALSE(winograd_conv_fits(noise({64, 64, 2, 2}, 1), kernel(3, 64, 96), at::kFloat));
  // One image and many take the same kernel.
  CHECK(winograd_conv_fits(x.narrow(0, 0, 1), kernel(3, 64, 96), at::kFloat));
}

}  // namespace
}  // namespace bv::test
