// winograd_conv() against the convolution in float64, forward and backward.
#include "lib/model/kernels/winograd_conv.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <catch2/catch.hpp>

#include "test/support/conv_cases.h"

namespace bv::test {
namespace {

std::vector<at::Tensor> winograd_results(const ConvOperands& all, at::ScalarType type) {
  return conv_results([&](const at::Tensor& x, const at::Tensor& kernel,
                          const at::Tensor& bias) { return winograd_conv(x, kernel, bias, type); },
                      all);
}

// Whether this CPU has a kernel for the type.
bool has_winograd_kernel(at::ScalarType type) {
  return winograd_conv_fits(at::empty({8, 64, 8, 8}), at::empty({3, 3, 64, 64}), type);
}

TEST_CASE("winograd_conv and its gradients are those of the convolution") {
  // Images that tiles fit or overlap, one pixel, one row; channels in one vector, in one block, in
  // several blocks. 40 x 16 x 16 has several ranges of tiles.
  for (const ConvCase& s : {ConvCase{2, 8, 8, 16, 16, 3},
                            {3, 5, 7, 48, 32, 3},
                            {2, 1, 1, 16, 32, 3},
                            {1, 1, 9, 32, 16, 3},
                            {40, 16, 16, 16, 32, 3},
                            {2, 6, 3, 272, 144, 3}}) {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      CAPTURE(s.n, s.h, s.w, s.in, s.out, type);
      const ConvOperands all(s, type);
      if (!has_winograd_kernel(type)) continue;
      const auto found = winograd_results(all, type),
                 exact = conv_results(libtorch_conv, all.widened(type));
      CHECK(found[0].scalar_type() == type);
      CHECK(found[0].is_contiguous(at::MemoryFormat::ChannelsLast));
      CHECK(found[1].scalar_type() == type);
      CHECK(found[2].scalar_type() == at::kFloat);
      const double unit = type == at::kFloat ? 2e-6 : 8e-3;
      for (size_t i = 0; i < found.size(); ++i) {
        CAPTURE(i);
        CHECK(found[i].sizes() == exact[i].sizes());
        CHECK(relative_error(found[i], exact[i]) < unit);
      }
    }
  }
}

TEST_CASE("winograd_conv is as exact as LibTorch's convolution in float32") {
  const ConvOperands all({4, 16, 16, 128, 128, 3}, at::kFloat);
  if (!has_winograd_kernel(at::kFloat)) return;
  const auto exact = conv_results(libtorch_conv, all.widened(at::kFloat));
  const auto theirs = conv_results(libtorch_conv, all), found = winograd_results(all, at::kFloat);
  for (size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(relative_error(found[i], exact[i]) < 2 * relative_error(theirs[i], exact[i]));
  }
}

TEST_CASE("winograd_conv has the same bits with any number of threads") {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const ConvOperands all({40, 15, 16, 32, 48, 3}, type);
    if (!has_winograd_kernel(type)) continue;
    const int threads = at::get_num_threads();
    at::set_num_threads(1);
    const auto one = winograd_results(all, type);
    at::set_num_threads(3);
    const auto three = winograd_results(all, type);
    at::set_num_threads(threads);
    for (size_t i = 0; i < one.size(); ++i) CHECK(one[i].equal(three[i]));
  }
}

TEST_CASE("winograd_conv computes each image alone") {
  const ConvOperands all({3, 5, 5, 16, 16, 3}, at::kFloat);
  const at::Tensor before = winograd_conv(all.x, all.kernel, all.bias, at::kFloat);
  all.x[1].fill_(NAN);
  const at::Tensor after = winograd_conv(all.x, all.kernel, all.bias, at::kFloat);
  CHECK(after[0].equal(before[0]));
  CHECK(after[1].isnan().all().item<bool>());
  CHECK(after[2].equal(before[2]));
}

TEST_CASE("winograd_conv_fits refuses what there is no kernel for, or where it is not faster") {
  const at::Tensor x = at::empty({8, 64, 8, 8});
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
  CHECK_FALSE(winograd_conv_fits(at::empty({64, 64, 2, 2}), kernel(3, 64, 96), at::kFloat));
  // One image and many take the same kernel.
  CHECK(winograd_conv_fits(x.narrow(0, 0, 1), kernel(3, 64, 96), at::kFloat));
}

}  // namespace
}  // namespace bv::test
