// direct_conv() against the convolution in float64, forward and backward. Without AMX it also works
// where oneDNN multiplies bfloat16, but no model uses it there.
#include "lib/model/kernels/direct_conv.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <catch2/catch.hpp>

#include "lib/model/kernels/small_products.h"
#include "test/support/conv_cases.h"

namespace bv::test {
namespace {

std::vector<at::Tensor> direct_conv_results(const ConvOperands& all) {
  return conv_results(direct_conv, all);
}

bool multiplies_bfloat16() { return can_multiply<c10::BFloat16>(); }

void check_results(const ConvCase& s, at::ScalarType wide, double kernel_error) {
  CAPTURE(s.n, s.h, s.w, s.in, s.out, s.size);
  const ConvOperands all(s, at::kBFloat16);
  const auto found = direct_conv_results(all),
             exact = conv_results(libtorch_conv, all.widened(at::kBFloat16, wide));
  CHECK(found[0].scalar_type() == at::kBFloat16);
  CHECK(found[0].is_contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(found[1].scalar_type() == at::kBFloat16);
  CHECK(found[2].scalar_type() == at::kFloat);
  CHECK(found[2].strides() == all.kernel.strides());
  for (size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i].sizes() == exact[i].sizes());
    CHECK(relative_error(found[i], exact[i]) < (i == 2 ? kernel_error : 3e-3));
  }
}

TEST_CASE("direct_conv and its gradients are those of the convolution") {
  if (!multiplies_bfloat16()) return;
  // One pixel, one row, one column; kernels wider than the image; odd numbers of images; several
  // blocks of channels; more than 64 pixels, where LibTorch computes the result.
  for (const ConvCase& s : {ConvCase{2, 8, 8, 64, 64, 3},
                            {1, 1, 1, 16, 32, 3},
                            {3, 1, 9, 32, 16, 3},
                            {5, 7, 1, 32, 48, 5},
                            {37, 4, 4, 192, 320, 3},
                            {33, 7, 7, 64, 16, 3},
                            {150, 3, 2, 16, 64, 5},
                            {13, 16, 16, 64, 128, 3},
                            {17, 33, 30, 32, 64, 3},
                            {1, 3, 300, 16, 16, 3}})
    check_results(s, at::kDouble, 2e-6);
}

TEST_CASE("direct_conv's gradient of the kernel is right in many blocks, strips and groups") {
  if (!multiplies_bfloat16()) return;
  // Blocks of two products; ranges of several strips; a last group of images that is smaller.
  check_results({4, 16, 2, 512, 512, 3}, at::kFloat, 1e-5);
  check_results({19, 1, 33, 512, 512, 3}, at::kFloat, 1e-5);
  check_results({70, 9, 8, 128, 128, 3}, at::kFloat, 1e-5);
}

TEST_CASE("direct_conv takes operands of any type and layout, and needs no bias") {
  if (!multiplies_bfloat16()) return;
  for (const int64_t side : {6, 12}) {
    CAPTURE(side);
    const ConvOperands all({3, side, side, 64, 32, 3}, at::kBFloat16);
    const at::Tensor right = direct_conv(all.x, all.kernel, all.bias);
    CHECK(direct_conv(all.x.to(at::kFloat).contiguous(), all.kernel.contiguous(), all.bias)
              .equal(right));
    CHECK(direct_conv(all.x, all.kernel.to(at::kBFloat16), all.bias).equal(right));
    CHECK(direct_conv(all.x, all.kernel, at::zeros({32}))
              .equal(direct_conv(all.x, all.kernel, /*bias=*/{})));
    const at::Tensor kernel = all.kernel.detach().requires_grad_();
    const at::Tensor y = direct_conv(all.x, kernel, /*bias=*/{});
    CHECK(torch::autograd::grad({y}, {kernel}, {all.grad})[0].equal(direct_conv_results(all)[2]));
  }
}

TEST_CASE("direct_conv has the same bits with any number of threads") {
  if (!multiplies_bfloat16()) return;
  const ConvOperands all({70, 7, 8, 64, 192, 3}, at::kBFloat16);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = direct_conv_results(all);
  at::set_num_threads(3);
  const auto three = direct_conv_results(all);
  at::set_num_threads(threads);
  for (size_t i = 0; i < one.size(); ++i) CHECK(one[i].equal(three[i]));
}

TEST_CASE("direct_conv computes each image alone, whatever the batch") {
  if (!multiplies_bfloat16()) return;
  ConvOperands all({35, 5, 5, 64, 64, 3}, at::kBFloat16);
  const auto before = direct_conv_results(all);
  for (const int64_t count : {1, 3}) {
    ConvOperands part = all;
    part.x = all.x.narrow(0, 1, count);
    part.grad = all.grad.narrow(0, 1, count);
    const auto some = direct_conv_results(part);
    CHECK(some[0].equal(before[0].narrow(0, 1, count)));
    CHECK(some[1].equal(before[1].narrow(0, 1, count)));
  }
  all.x[1].fill_(NAN);
  const at::Tensor after = direct_conv(all.x, all.kernel, all.bias);
  CHECK(after[0].equal(before[0][0]));
  CHECK(after[1].isnan().all().item<bool>());
  CHECK(after.narrow(0, 2, 33).equal(before[0].narrow(0, 2, 33)));
}

TEST_CASE("direct_conv gives weights whose inputs are all 0 a gradient of exactly 0") {
  if (!multiplies_bfloat16()) return;
  const ConvOperands all({9, 4, 4, 64, 64, 3}, at::kBFloat16);
  all.x.select(1, 5).zero_();
  CHECK(direct_conv_results(all)[2].select(2, 5).eq(0).all().item<bool>());
}

TEST_CASE("an image that is not finite makes the gradient of its inputs alone NaN") {
  if (!multiplies_bfloat16()) return;
  // The last group has fewer images. Its products also read the numbers behind its pixels, which
  // must not be left over from the group before.
  const ConvOperands all({150, 4, 4, 256, 64, 3}, at::kBFloat16);
  all.x.select(1, 200).fill_(NAN);
  const at::Tensor gradient = direct_conv_results(all)[2];
  CHECK(gradient.select(2, 200).isnan().all().item<bool>());
  CHECK(gradient.narrow(2, 0, 200).isfinite().all().item<bool>());
}

TEST_CASE("LibTorch's products in bfloat16 are right after direct_conv") {
  // Both set up AMX.
  if (!multiplies_bfloat16()) return;
  const ConvOperands all({8, 4, 4, 64, 64, 3}, at::kBFloat16);
  const at::Tensor a = all.x.flatten(1), b = a.t().contiguous();
  const at::Tensor before = at::mm(a, b), result = direct_conv(all.x, all.kernel, all.bias);
  for (int i = 0; i < 3; ++i) {
    CHECK(at::mm(a, b).equal(before));
    CHECK(direct_conv(all.x, all.kernel, all.bias).equal(result));
  }
}

TEST_CASE("direct_conv_fits refuses what there is no kernel for, or where it is not faster") {
  const auto fits = [](int64_t size, int64_t in, int64_t out, at::ScalarType type) {
    return direct_conv_fits(at::empty({8, in, 4, 4}), at::empty({size, size, in, out}), type);
  };
  CHECK(fits(3, 64, 96, at::kBFloat16) == has_amx());
  CHECK_FALSE(fits(3, 64, 96, at::kFloat));
  CHECK_FALSE(fits(1, 64, 96, at::kBFloat16));
  CHECK_FALSE(fits(2, 64, 96, at::kBFloat16));
  CHECK_FALSE(fits(3, 64, 80, at::kBFloat16));
  CHECK_FALSE(fits(3, 32, 64, at::kBFloat16));
  // LibTorch's convolution rejects them with an error.
  CHECK_FALSE(direct_conv_fits(at::empty({8, 32, 4, 4}), at::empty({3, 3, 64, 64}), at::kBFloat16));
}

}  // namespace
}  // namespace bv::test
