// Compares attention, forward and backward, with its formula in float64.
#include "lib/model/kernels/attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>
#include <limits>

#include "lib/device/cpu_bf16.h"
#include "lib/device/cpu_isa.h"
#include "lib/model/layers/attention.h"
#include "test/model/against_formula.h"

namespace bv::test {
namespace {

struct AttentionSizes {
  int64_t n, heads, l, m, d;
};

// Returns q, k, v and a gradient of the result, (n, heads, length, d), as a layer passes them: in
// memory (n, length, heads, d).
Tensors attention_operands(const AttentionSizes& s, at::ScalarType type) {
  Tensors all;
  for (const int64_t length : {s.l, s.m, s.m, s.l})
    all.push_back(noise({s.n, length, s.heads, s.d}, type, all.size() + 1).transpose(1, 2));
  return all;
}

at::Tensor our_attention(const Tensors& in) { return attention(in[0], in[1], in[2]); }
at::Tensor attention_formula(const Tensors& in) {
  const double scale = 1 / std::sqrt(static_cast<double>(in[0].size(-1)));
  return (in[0].matmul(in[1].transpose(-1, -2)) * scale).softmax(-1).matmul(in[2]);
}
at::Tensor torch_attention(const Tensors& in) {
  const bool amx_without_avx512 = has_amx() && cpu_isa() < CpuIsa::avx512;  // its kernel throws
  if (amx_without_avx512 && in[0].scalar_type() == at::kBFloat16)
    return std::get<0>(at::_scaled_dot_product_attention_math(in[0], in[1], in[2]));
  return at::scaled_dot_product_attention(in[0], in[1], in[2]);
}

}  // namespace

TEST_CASE("attention agrees with its formula, whatever the lengths and the size of a head") {
  for (const AttentionSizes& s : std::vector<AttentionSizes>{{1, 1, 1, 1, 2},
                                                             {2, 3, 5, 5, 4},
                                                             {2, 3, 1, 9, 6},
                                                             {3, 2, 9, 1, 8},
                                                             {1, 2, 17, 17, 16},
                                                             {2, 2, 33, 70, 20},
                                                             {2, 1, 61, 43, 30},
                                                             {1, 3, 1, 1100, 64},
                                                             {1, 1, 129, 65, 64},
                                                             {1, 2, 64, 128, 32},
                                                             {2, 3, 197, 197, 64},
                                                             {1, 1, 600, 577, 48},
                                                             {1, 2, 6, 6, 7}}) {
    INFO(s.l << " queries, " << s.m << " keys of " << s.d);
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const Tensors all = attention_operands(s, type);
      const Tensors exact = results(attention_formula, all, at::kDouble);
      const std::vector<double> found = errors(results(our_attention, all, type), exact);
      const std::vector<double> torch = errors(results(torch_attention, all, type), exact);
      // The gradients of one key are exactly 0 in float64.
      for (size_t i = 0; i < found.size(); ++i) {
        INFO("result " << i << " in " << type << ", LibTorch's error " << torch[i]);
        if (exact[i].abs().max().item<double>() < 1e-12) continue;
        // On CPUs without a bvtrain kernel, it is LibTorch's error.
        CHECK(found[i] <= std::max(type == at::kFloat ? 2e-6 : 0x1.8p-8, torch[i]));
      }
    }
  }
}

TEST_CASE("attention has the same bits for any number of threads") {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const Tensors all = attention_operands({3, 4, 50, 41, 32}, type);
    Tensors one;
    {
      const Threads single(1);
      one = results(our_attention, all, type);
    }
    const Threads four(4);
    const Tensors again = results(our_attention, all, type);
    for (size_t i = 0; i < one.size(); ++i) CHECK(again[i].equal(one[i]));
  }
}

TEST_CASE("self_attention gives the numbers of attention") {
  for (const AttentionSizes& s :
       std::vector<AttentionSizes>{{2, 3, 50, 50, 32}, {1, 2, 6, 6, 7}, {3, 2, 4, 4, 8}}) {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      INFO(s.l << " tokens, heads of " << s.d << ", " << type);
      const Tensors all = attention_operands(s, type);
      const Tensors parts = results(our_attention, all, type);
      const at::Tensor qkv = at::stack({all[0], all[1], all[2]}).permute({1, 3, 0, 2, 4});
      const Tensors whole = results([](const Tensors& in) { return self_attention(in[0]); },
                                    {qkv.contiguous(), all[3]}, type);
      // LibTorch computes the small sizes. Its results may differ by rounding.
      const double unit = type == at::kFloat ? 1e-6 : 0x1p-8;
      const auto close = [&](const at::Tensor& a, const at::Tensor& b) {
        return at::allclose(a, b, 2 * unit, unit);
      };
      CHECK(close(whole[0], parts[0]));
      const std::vector<at::Tensor> gradients = whole[1].permute({2, 0, 3, 1, 4}).unbind(0);
      for (size_t i = 0; i < 3; ++i) CHECK(close(gradients[i], parts[i + 1]));
    }
  }
}

TEST_CASE("an attention layer gives the same results with one projection and with three") {
  Module module;
  const Attention layer = Attention::add(module, "a", /*features=*/24, /*heads=*/3);
  Tensors weights;
  for (const auto& parameter : module.parameters()) {
    weights.push_back(parameter.value);
    const at::Tensor values = noise(parameter.value.sizes(), at::kFloat, weights.size()) * 0.2;
    weights.back().detach().copy_(values);
  }
  const at::Tensor x = noise({2, 5, 24}, at::kFloat, 20).requires_grad_();
  const at::Tensor grad = noise({2, 5, 24}, at::kFloat, 21);
  Tensors inputs = weights;
  inputs.push_back(x);
  Pass pass;
  pass.train = true;
  const at::Tensor one = layer(x, x, pass), three = layer(x, x.clone(), pass);
  CHECK(at::allclose(one, three, 1e-5, 1e-6));
  const Tensors a = torch::autograd::grad({one}, inputs, {grad});
  const Tensors b = torch::autograd::grad({three}, inputs, {grad});
  for (size_t i = 0; i < inputs.size(); ++i) CHECK(at::allclose(a[i], b[i], 1e-5, 1e-6));
  // In evaluation the layer uses three projections for these 10 rows, and one for 30 rows.
  pass.train = false;
  CHECK(at::allclose(layer(x, x, pass), one, 1e-5, 1e-6));
  const at::Tensor more = x.repeat({3, 1, 1});
  CHECK(at::allclose(layer(more, more, pass), one.repeat({3, 1, 1}), 1e-5, 1e-6));
}

TEST_CASE("attention takes large scores, other layouts and other types") {
  Tensors all = attention_operands({1, 2, 48, 48, 32}, at::kFloat);
  all[0] = all[0] * 200;  // scores of some hundred: most probabilities are 0
  const Tensors exact = results(attention_formula, all, at::kDouble);
  const std::vector<double> found = errors(results(our_attention, all, at::kFloat), exact),
                            torch = errors(results(torch_attention, all, at::kFloat), exact);
  for (size_t i = 0; i < found.size(); ++i) CHECK(found[i] < 2 * torch[i] + 1e-6);
  all = attention_operands({2, 2, 52, 50, 32}, at::kFloat);
  const Tensors plain = results(our_attention, all, at::kFloat);
  Tensors other = all;
  other[1] = other[1].transpose(2, 3).contiguous().transpose(2, 3);  // the last stride is not 1
  other[3] = at::ones({1}).expand(other[3].sizes());                 // one number, expanded
  Tensors same = all;
  same[3] = at::ones_like(all[3]);
  const Tensors a = results(our_attention, other, at::kFloat),
                b = results(our_attention, same, at::kFloat);
  CHECK(at::allclose(a[0], plain[0], 1e-5, 1e-6));
  for (size_t i = 0; i < a.size(); ++i) CHECK(at::allclose(a[i], b[i], 1e-4, 1e-6));
  for (const at::Tensor& each : results(our_attention, all, at::kDouble))
    CHECK(each.scalar_type() == at::kDouble);
}

TEST_CASE("attention broadcasts as LibTorch's does") {
  const auto q = noise({3, 4, 60, 64}, at::kFloat, 1), one = noise({1, 4, 60, 64}, at::kFloat, 2);
  const auto k = noise({3, 4, 50, 64}, at::kFloat, 3), v = noise({3, 4, 50, 32}, at::kFloat, 4);
  CHECK(at::allclose(attention(one, k, k), torch_attention({one, k, k}), 1e-5, 1e-6));
  CHECK(at::allclose(attention(q, one, one), torch_attention({q, one, one}), 1e-5, 1e-6));
  CHECK(at::allclose(attention(q, k, v), torch_attention({q, k, v}), 1e-5, 1e-6));
}

TEST_CASE("attention keeps what is not finite") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInf, -kInf}) {
      for (const int64_t token : {0, 13, 39}) {
        INFO(bad << " in token " << token);
        Tensors all = attention_operands({1, 1, 40, 40, 64}, type);
        all[0] = all[0].contiguous();
        all[0][0][0][token][3] = bad;
        const Tensors found = results(our_attention, all, type);
        for (size_t i = 1; i < 4; ++i) CHECK(found[i].isnan().any().item<bool>());
        // On CPUs without a bvtrain kernel, LibTorch's result may be 0.
        if (found[0].equal(torch_attention(all))) continue;
        CHECK(found[0][0][0][token].isnan().all().item<bool>());
        CHECK(found[0].isnan().sum().item<int64_t>() == 64);  // the other queries are as before
      }
    }
  }
}

}  // namespace bv::test
