// Compares conv2d_in_float32() and the convolutions that convolve() gives to it, forward and
// backward, with LibTorch's convolution in float64.
#include "lib/model/kernels/conv_in_float32.h"

#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <cmath>

#include "lib/model/layers/compute.h"
#include "test/model/against_formula.h"

namespace bv::test {
namespace {

struct StridedConv {
  int64_t in, out, size, kernel, stride, pad;
  bool bias;
};

// All numbers are exact in bfloat16.
at::Tensor values(at::IntArrayRef shape, uint64_t seed) {
  return noise(shape, at::kBFloat16, seed).to(at::kFloat);
}

}  // namespace

TEST_CASE("a convolution of bfloat16 in float32 agrees with LibTorch's in float64") {
  for (const StridedConv& s :
       {StridedConv{3, 5, 9, 3, 1, 1, true}, StridedConv{16, 32, 14, 1, 2, 0, false},
        StridedConv{8, 4, 15, 7, 2, 3, true}, StridedConv{64, 64, 7, 3, 2, 1, false}}) {
    INFO(fmt::format("{} to {} channels, {}x{} of {}x{}", s.in, s.out, s.kernel, s.kernel, s.size,
                     s.size));
    Tensors all = {values({2, s.in, s.size, s.size}, 1),
                   values({s.out, s.in, s.kernel, s.kernel}, 2)};
    if (s.bias) all.push_back(values({s.out}, 3));
    const int64_t extent = (s.size + 2 * s.pad - s.kernel) / s.stride + 1;
    all.push_back(values({2, s.out, extent, extent}, 4));
    const int64_t strides[] = {s.stride, s.stride}, pads[] = {s.pad, s.pad};
    const auto bias_of = [](const Tensors& in) { return in.size() > 2 ? in[2] : at::Tensor(); };
    const auto formula = [&](const Tensors& in) {
      return at::conv2d(in[0], in[1], bias_of(in), strides, pads);
    };
    const auto layer = [&](const Tensors& in) {
      const at::Tensor x = in[0].to(at::kBFloat16).contiguous(at::MemoryFormat::ChannelsLast);
      const at::Tensor y = conv2d_in_float32(x, in[1], bias_of(in), strides, pads);
      REQUIRE(y.scalar_type() == at::kBFloat16);
      return y.to(at::kFloat);
    };
    const std::vector<double> far =
        errors(results(layer, all, at::kFloat), results(formula, all, at::kDouble));
    for (size_t i = 0; i < far.size(); ++i)
      CHECK(far[i] < (i < 2 ? 0x1p-8 : 1e-5));  // only the result and the gradient of x are rounded
  }
}

TEST_CASE("convolutions in bfloat16 whose results are one pixel wide are right") {
  for (const int64_t width : {1, 2}) {
    for (const int64_t channels : {3, 64}) {
      INFO(channels << " channels, width " << width);
      const Tensors all = {values({4, channels, 64, width}, 1), values({64, channels, 3, 3}, 2),
                           values({4, 64, 32, 1}, 3)};
      const int64_t strides[] = {2, 2}, pads[] = {1, 1};
      const auto formula = [&](const Tensors& in) {
        return at::conv2d(in[0], in[1], at::Tensor(), strides, pads);
      };
      const auto layer = [&](const Tensors& in) {
        Pass pass;
        pass.precision = Precision::bf16;
        const at::Tensor x = in[0].contiguous(at::MemoryFormat::ChannelsLast);
        return convolve(x, in[1], at::Tensor(), strides, pads, pass).to(at::kFloat);
      };
      for (int i = 0; i < 8; ++i) {
        // Leaves NaN in freed memory, which the next tensors get.
        at::full({1 << 16}, std::nanf(""), at::kFloat);
        for (const double far :
             errors(results(layer, all, at::kFloat), results(formula, all, at::kDouble)))
          CHECK(far < 0x1p-6);
      }
    }
  }
}

TEST_CASE("a convolution of bfloat16 in float32 trains any subset of its operands, of any type") {
  const at::Tensor x = values({2, 8, 6, 6}, 1).to(at::kBFloat16), grad = values({2, 4, 6, 6}, 4);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const Tensors all = {x, values({4, 8, 3, 3}, 2).to(type), values({4}, 3).to(type)};
    const Tensors exact =
        results([](const Tensors& in) { return at::conv2d(in[0], in[1], in[2], 1, 1); },
                {all[0], all[1], all[2], grad}, at::kDouble);
    for (size_t trained = 0; trained < 3; ++trained) {
      Tensors in;
      for (const at::Tensor& each : all) in.push_back(each.detach());
      in[trained].set_requires_grad(true);
      const at::Tensor y = conv2d_in_float32(in[0], in[1], in[2], {1, 1}, {1, 1});
      const at::Tensor found =
          torch::autograd::grad({y}, {in[trained]}, {grad.to(at::kBFloat16)})[0];
      CHECK(found.scalar_type() == in[trained].scalar_type());
      CHECK(errors({found}, {exact[trained + 1]})[0] < 0x1p-7);
    }
  }
}

}  // namespace bv::test
