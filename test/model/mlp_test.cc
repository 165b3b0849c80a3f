// Compares the MLP's kernels, forward and backward, with their formula in float64.
#include "lib/model/kernels/mlp.h"

#include <c10/core/GradMode.h>

#include <fmt/format.h>

#include "test/model/against_formula.h"

namespace bv::test {
namespace {

struct MlpSizes {
  std::vector<int64_t> x;
  int64_t hidden, out;
};

enum class Over { features, tokens };

// Returns x, the weights as a layer passes them (transposed kernels), and a gradient of the result.
// All numbers are exact in bfloat16.
Tensors mlp_operands(const MlpSizes& s, Over over) {
  const int64_t axis = over == Over::tokens ? 1 : std::ssize(s.x) - 1;
  std::vector<int64_t> grad = s.x;
  const int64_t in = std::exchange(grad[axis], s.out);
  uint64_t seed = 0;
  const auto make = [&](at::IntArrayRef shape, double scale) {
    return (noise(shape, at::kFloat, ++seed) * scale).to(at::kBFloat16).to(at::kFloat);
  };
  const auto fan = [](int64_t n) { return 1 / std::sqrt(static_cast<double>(n)); };
  return {make(s.x, 1),          make({in, s.hidden}, fan(in)).t(),
          make({s.hidden}, 0.5), make({s.hidden, s.out}, fan(s.hidden)).t(),
          make({s.out}, 0.5),    make(grad, 1)};
}

// Computes x in `type`; the weights stay float32.
template <Over kOver>
at::Tensor our_mlp(const Tensors& in, at::ScalarType type, bool in_float32 = true) {
  const MlpWeights weights = {in[1], in[2], in[3], in[4]};
  const at::Tensor x = in[0].to(type);
  return kOver == Over::tokens ? token_mlp(x, weights, in_float32) : mlp(x, weights);
}
template <Over kOver>
at::Tensor mlp_formula(const Tensors& in) {
  const at::Tensor x = kOver == Over::tokens ? in[0].transpose(1, 2) : in[0];
  const at::Tensor y = at::gelu(x.matmul(in[1].t()) + in[2], "tanh").matmul(in[3].t()) + in[4];
  return kOver == Over::tokens ? y.transpose(1, 2) : y;
}

template <Over kOver>
void check_against_formula(const MlpSizes& sizes) {
  const Tensors all = mlp_operands(sizes, kOver);
  const Tensors exact = results(mlp_formula<kOver>, all, at::kDouble);
  const auto check = [&](at::ScalarType type, bool in_float32, double bound) {
    const auto layer = [&](const Tensors& in) {
      return our_mlp<kOver>(in, type, in_float32).to(at::kFloat);
    };
    const std::vector<double> found = errors(results(layer, all, at::kFloat), exact);
    for (size_t i = 0; i < found.size(); ++i) {
      INFO(fmt::format("result {} of {} numbers, hidden {}, {}", i, all[0].numel(), sizes.hidden,
                       c10::toString(type)));
      CHECK(found[i] < bound);
    }
  };
  // The second sum has `hidden` terms. Rounding errors of a sum in sequence grow with their root.
  const double longest = std::sqrt(static_cast<double>(sizes.hidden));
  check(at::kFloat, true, std::max(5e-6, longest * 0x1p-24));
  check(at::kBFloat16, true, 0x1p-7);
  if (kOver == Over::tokens) check(at::kBFloat16, false, 0x1p-5);
}

template <Over kOver>
void check_subsets(const MlpSizes& sizes, at::ScalarType type, bool in_float32, double bound) {
  const Tensors all = mlp_operands(sizes, kOver);
  const auto layer = [&](const Tensors& in) {
    return our_mlp<kOver>(in, type, in_float32).to(at::kFloat);
  };
  for (size_t trained = 0; trained < 5; ++trained) {
    Tensors in;
    for (size_t i = 0; i < 5; ++i) in.push_back(all[i].detach());
    in[trained].set_requires_grad(true);
    const at::Tensor y = layer(in);
    const at::Tensor found = torch::autograd::grad({y}, {in[trained]}, {all[5]})[0];
    const at::Tensor wanted =
        torch::autograd::grad({mlp_formula<kOver>(in)}, {in[trained]}, {all[5]})[0];
    CHECK(errors({found}, {wanted.to(at::kDouble)})[0] < bound);
    {
      const c10::AutoGradMode no_grad(false);
      CHECK(layer(in).equal(y));
    }
    in[trained].set_requires_grad(false);
    CHECK(layer(in).equal(y));
  }
}

}  // namespace

TEST_CASE("an MLP agrees with its formula, forward and backward, whatever the sizes") {
  for (const MlpSizes& sizes : std::vector<MlpSizes>{{{1, 1}, 1, 1},
                                                     {{5, 3}, 7, 2},
                                                     {{400, 64}, 256, 64},
                                                     {{3, 197, 48}, 100, 80},
                                                     {{2, 2, 33, 65}, 129, 65},
                                                     {{40, 20}, 33'000, 3}})
    check_against_formula<Over::features>(sizes);
}

TEST_CASE("an MLP over tokens agrees with its formula, forward and backward, whatever the sizes") {
  for (const MlpSizes& sizes : std::vector<MlpSizes>{{{1, 1, 1}, 1, 1},
                                                     {{2, 3, 5}, 7, 2},
                                                     {{5, 49, 64}, 32, 49},
                                                     {{2, 196, 100}, 129, 196},
                                                     {{2, 3, 33'000}, 2, 3}})
    check_against_formula<Over::tokens>(sizes);
}

TEST_CASE("an MLP trains any subset of its operands, and gives the same result without gradients") {
  const MlpSizes features = {{6, 20, 24}, 40, 24}, tokens = {{6, 20, 24}, 40, 20};
  check_subsets<Over::features>(features, at::kFloat, true, 1e-5);
  check_subsets<Over::features>(features, at::kBFloat16, true, 0x1p-6);
  check_subsets<Over::tokens>(tokens, at::kFloat, true, 1e-5);
  check_subsets<Over::tokens>(tokens, at::kBFloat16, true, 0x1p-6);
  check_subsets<Over::tokens>(tokens, at::kBFloat16, false, 0x1p-5);
}

TEST_CASE("an MLP takes inputs and gradients of any strides") {
  const Tensors all = mlp_operands({{20, 30}, 50, 30}, Over::features);
  const auto layer = [](const Tensors& in) { return our_mlp<Over::features>(in, at::kFloat); };
  Tensors other = all;
  other[0] = all[0].t().contiguous().t();
  other[2] = at::stack({all[2], all[2]}, 1).select(1, 0);
  other[5] = at::ones({1}).expand({20, 30});
  Tensors same = all;
  same[5] = at::ones({20, 30});
  const Tensors a = results(layer, other, at::kFloat), b = results(layer, same, at::kFloat);
  for (size_t i = 0; i < a.size(); ++i) CHECK(at::allclose(a[i], b[i], 1e-5, 1e-5));
}

TEST_CASE(
    "what an MLP adds and sums between its products has the same bits for any number of threads") {
  const Tensors all = mlp_operands({{700, 16}, 200, 16}, Over::features);
  const auto layer = [](const Tensors& in) { return our_mlp<Over::features>(in, at::kFloat); };
  Tensors one;
  {
    const Threads single(1);
    one = results(layer, all, at::kFloat);
  }
  const Threads four(4);
  const Tensors again = results(layer, all, at::kFloat);
  CHECK(again[3].equal(one[3]));  // the gradient of the hidden layer's bias
}

}  // namespace bv::test
