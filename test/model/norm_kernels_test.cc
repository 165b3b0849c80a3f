// Compares the kernels of group norm, layer norm and weight standardisation with the same formulas
// in LibTorch's operations, in float64.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <catch2/catch.hpp>
#include <optional>

#include "lib/model/kernels/channels_last.h"
#include "lib/model/kernels/group_norm.h"
#include "lib/model/kernels/layer_norm.h"
#include "lib/model/kernels/standardize.h"
#include "lib/model/layers/group_norm.h"
#include "test/model/against_formula.h"

namespace bv::test {
namespace {

constexpr double kEps = 1e-6;
constexpr int64_t kGroups = 8;

at::Tensor norm_noise(std::vector<int64_t> shape, uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  const at::Tensor x = at::randn(shape, generator, at::kFloat);
  return x.dim() == 4 ? x.contiguous(kChannelsLast) : x;
}

// Returns whether each element differs by at most 2e-5 plus a fraction of its exact value: 2e-5 for
// float32, 2^-8 for bfloat16.
bool near(const at::Tensor& a, const at::Tensor& exact) {
  const double unit = a.scalar_type() == at::kFloat ? 2e-5 : 0x1p-8;
  const at::Tensor error = (a.to(at::kDouble) - exact).abs();
  return (error <= exact.abs() * unit + 2e-5).all().item<bool>();
}

struct GroupNormed {
  at::Tensor y, dx, dscale, dbias, dshortcut;
};

struct Arguments {
  at::Tensor x, scale, bias, shortcut, grad;
  NormTail tail;
  at::ScalarType type;
};

GroupNormed fused(const Arguments& a) {
  const at::Tensor x = leaf(a.x), scale = leaf(a.scale), bias = leaf(a.bias);
  std::optional<at::Tensor> shortcut;
  if (a.tail == NormTail::add_relu) shortcut = leaf(a.shortcut);
  const at::Tensor y = fused_group_norm(x, kGroups, scale, bias, kEps, a.tail, a.type, shortcut);
  y.backward(a.grad.to(a.type));
  return {y, x.grad(), scale.grad(), bias.grad(), shortcut ? shortcut->grad() : at::Tensor()};
}

GroupNormed exact(const Arguments& a) {
  const auto wide = [](const at::Tensor& t) { return leaf(t.to(at::kDouble)); };
  const at::Tensor x = wide(a.x), scale = wide(a.scale), bias = wide(a.bias);
  const at::Tensor shortcut = wide(a.shortcut);
  at::Tensor y = at::group_norm(x, kGroups, scale, bias, kEps);
  if (a.tail == NormTail::add_relu) y = y + shortcut;
  if (a.tail != NormTail::nothing) y = at::relu(y);
  y.backward(a.grad.to(a.type).to(at::kDouble));
  return {y, x.grad(), scale.grad(), bias.grad(),
          a.tail == NormTail::add_relu ? shortcut.grad() : at::Tensor()};
}

Arguments arguments(std::vector<int64_t> shape, at::ScalarType from, NormTail tail,
                    at::ScalarType type) {
  // The values are far from zero: a variance that is computed as E[x^2] - E[x]^2 in float32 would
  // be wrong.
  return {(norm_noise(shape, 1) * 2 + 5).to(from),
          norm_noise({shape[1]}, 2),
          norm_noise({shape[1]}, 3),
          norm_noise(shape, 4),
          norm_noise(shape, 5),
          tail,
          type};
}

TEST_CASE("fused_group_norm is group_norm, the sum with the shortcut and relu") {
  // 48 channels are three vectors, which the kernel takes as a pair and a single one. 48 x 40 x 40
  // elements are three chunks.
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{3, 48, 5, 7}, {2, 64, 1, 1}, {1, 48, 40, 40}}) {
    for (const auto from : {at::kFloat, at::kBFloat16}) {
      for (const auto type : {at::kFloat, at::kBFloat16}) {
        for (const auto tail : {NormTail::nothing, NormTail::relu, NormTail::add_relu}) {
          CAPTURE(shape, from, type, static_cast<int>(tail));
          const Arguments given = arguments(shape, from, tail, type);
          REQUIRE(group_norm_fits(given.x));
          const GroupNormed a = fused(given), b = exact(given);
          CHECK(a.y.is_contiguous(kChannelsLast));
          CHECK(a.y.scalar_type() == type);
          CHECK(a.dx.scalar_type() == from);
          CHECK(near(a.y, b.y));
          CHECK(near(a.dx, b.dx));
          CHECK(at::allclose(a.dscale.to(at::kDouble), b.dscale, 1e-4, 1e-3));
          CHECK(at::allclose(a.dbias.to(at::kDouble), b.dbias, 1e-4, 1e-3));
          if (tail == NormTail::add_relu) CHECK(near(a.dshortcut, b.dshortcut));
        }
      }
    }
  }
}

TEST_CASE("fused_group_norm has the same bits with any number of threads") {
  // With one image the threads share its pixels. With 13 images each thread takes whole ones. With
  // 16 images of 1024 channels LibTorch also uses several threads to sum dscale and dbias.
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{1, 32, 50, 40}, {13, 32, 50, 40}, {16, 1024, 3, 3}}) {
    const Arguments given = arguments(shape, at::kBFloat16, NormTail::add_relu, at::kFloat);
    const int threads = at::get_num_threads();
    at::set_num_threads(1);
    const GroupNormed one = fused(given);
    at::set_num_threads(3);
    const GroupNormed three = fused(given);
    at::set_num_threads(threads);
    CHECK(one.y.equal(three.y));
    CHECK(one.dx.equal(three.dx));
    CHECK(one.dscale.equal(three.dscale));
    CHECK(one.dbias.equal(three.dbias));
    CHECK(one.dshortcut.equal(three.dshortcut));
  }
}

TEST_CASE("fused_group_norm keeps what is not finite, in its image and group only") {
  Arguments given = arguments({2, 32, 4, 4}, at::kFloat, NormTail::relu, at::kFloat);
  given.x.index_put_({at::tensor(1), at::tensor(5), at::tensor(2), at::tensor(3)}, at::tensor(NAN));
  const GroupNormed a = fused(given);
  const at::Tensor nan = a.y.isnan(), group = nan[1].narrow(0, 4, 4);
  CHECK(group.all().item<bool>());
  CHECK(nan.sum().item<int64_t>() == group.numel());
  CHECK(a.dx.isnan().sum().item<int64_t>() == group.numel());
}

TEST_CASE("one large value in a corner does not cost fused_group_norm the digits of the others") {
  for (const int64_t channels : {16, 64}) {
    Arguments given = arguments({1, channels, 112, 112}, at::kFloat, NormTail::nothing, at::kFloat);
    given.x.select(2, 0).select(2, 0).fill_(1000);
    CHECK(near(fused(given).y, exact(given).y));
    given.x.zero_();
    given.x.select(2, 0).select(2, 0).fill_(1000);
    const GroupNormed a = fused(given), b = exact(given);
    CHECK(at::allclose(a.y.to(at::kDouble), b.y, 1e-4, 1e-5));
  }
}

TEST_CASE("fused_group_norm takes any layout of the gradient, and parameters without gradients") {
  const at::Tensor x = leaf(norm_noise({2, 32, 3, 5}, 1)), scale = norm_noise({32}, 2),
                   bias = norm_noise({32}, 3);
  const auto run = [&](const at::Tensor& grad) {
    x.mutable_grad().reset();
    fused_group_norm(x, kGroups, scale, bias, kEps, NormTail::relu, at::kFloat).backward(grad);
    return x.grad();
  };
  const at::Tensor grad = norm_noise({2, 32, 3, 5}, 4);
  CHECK(run(grad.contiguous()).equal(run(grad)));
  CHECK(run(at::ones({1, 1, 1, 1}).expand(x.sizes())).equal(run(at::ones(x.sizes()))));
}

TEST_CASE("fused_group_norm refuses shapes that do not fit") {
  const at::Tensor x = norm_noise({2, 32, 3, 3}, 1), scale = at::ones({32});
  const auto run = [&](int64_t groups, const at::Tensor& bias, NormTail tail,
                       const std::optional<at::Tensor>& shortcut) {
    return fused_group_norm(x, groups, scale, bias, kEps, tail, at::kFloat, shortcut);
  };
  CHECK_THROWS(run(5, scale, NormTail::relu, {}));
  CHECK_THROWS(run(64, scale, NormTail::relu, {}));
  CHECK_THROWS(run(8, at::ones({16}), NormTail::relu, {}));
  CHECK_THROWS(run(8, scale, NormTail::add_relu, {}));
  CHECK_THROWS(run(8, scale, NormTail::add_relu, at::ones({2, 32, 3, 2})));
}

TEST_CASE("group norm after frozen layers has gradients, also without a kernel of its own") {
  for (const int64_t side : {1, 5}) {
    // clone() sets the strides of 1x1 pixels too.
    const at::Tensor x = norm_noise({2, 24, side, side}, 1).clone(kChannelsLast);
    const at::Tensor grad = norm_noise(x.sizes().vec(), 2);
    REQUIRE_FALSE(group_norm_fits(x));
    REQUIRE(x.suggest_memory_format() == kChannelsLast);
    const GroupNorm norm{leaf(norm_noise({24}, 3)), leaf(norm_noise({24}, 4)), kGroups};
    const at::Tensor y = norm(x, at::kFloat);
    y.backward(grad);
    const at::Tensor scale = leaf(norm.scale.to(at::kDouble)),
                     bias = leaf(norm.bias.to(at::kDouble));
    const at::Tensor exact_y =
        at::group_norm(leaf(x.to(at::kDouble)), kGroups, scale, bias, norm.eps);
    exact_y.backward(grad.to(at::kDouble));
    CHECK(near(y, exact_y));
    CHECK(near(norm.scale.grad(), scale.grad()));
    CHECK(near(norm.bias.grad(), bias.grad()));
  }
}

TEST_CASE("group_norm_fits refuses what there is no kernel for") {
  CHECK(group_norm_fits(norm_noise({2, 16, 3, 3}, 1)));
  CHECK_FALSE(group_norm_fits(norm_noise({2, 24, 3, 3}, 1)));               // half a vector
  CHECK_FALSE(group_norm_fits(norm_noise({2, 16, 3, 3}, 1).contiguous()));  // not channels_last
  CHECK_FALSE(group_norm_fits(norm_noise({0, 16, 3, 3}, 1)));
  CHECK_FALSE(group_norm_fits(norm_noise({2, 16, 3, 3}, 1).to(at::kDouble)));
}

TEST_CASE("layer_norm and its gradients are those of LibTorch's operator") {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{1, 16}, {3, 197, 192}, {70, 1024}, {5, 3, 40}}) {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      CAPTURE(shape, type);
      const int64_t size = shape.back();
      const at::Tensor given = norm_noise(shape, 1) * 2 + 5;
      const at::Tensor x = leaf(given), scale = leaf(norm_noise({size}, 2)),
                       bias = leaf(norm_noise({size}, 3));
      const at::Tensor grad = norm_noise(shape, 4).to(type);
      const at::Tensor ours = layer_norm(x, scale, bias, kEps, type);
      CHECK(ours.scalar_type() == type);
      ours.backward(grad);
      const auto wide = [](const at::Tensor& t) { return leaf(t.to(at::kDouble)); };
      const at::Tensor exact_x = wide(x), exact_scale = wide(scale), exact_bias = wide(bias);
      const at::Tensor theirs = at::layer_norm(exact_x, {size}, exact_scale, exact_bias, kEps);
      theirs.backward(grad.to(at::kDouble));
      CHECK(near(ours, theirs));
      CHECK(
          layer_norm(given.to(at::kBFloat16), scale, bias, kEps, type)
              .equal(layer_norm(given.to(at::kBFloat16).to(at::kFloat), scale, bias, kEps, type)));
      CHECK(near(x.grad(), exact_x.grad()));
      CHECK(at::allclose(scale.grad().to(at::kDouble), exact_scale.grad(), 1e-4, 1e-4));
      CHECK(at::allclose(bias.grad().to(at::kDouble), exact_bias.grad(), 1e-4, 1e-4));
    }
  }
}

TEST_CASE("add_layer_norm and its gradients are those of a sum and a layer norm") {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{1, 16}, {3, 197, 192}, {70, 1024}, {5, 3, 40}}) {
    for (const auto branch_type : {at::kFloat, at::kBFloat16}) {
      for (const auto type : {at::kFloat, at::kBFloat16}) {
        CAPTURE(shape, branch_type, type);
        const int64_t size = shape.back();
        const at::Tensor scale = norm_noise({size}, 2), bias = norm_noise({size}, 3);
        const at::Tensor given[] = {norm_noise(shape, 1) * 2 + 5,
                                    norm_noise(shape, 4).to(branch_type)};
        const at::Tensor above = norm_noise(shape, 5), grad = norm_noise(shape, 6).to(type);
        // Which of the two results has a gradient: both, the norm only, the sum only.
        for (const auto& [from_sum, from_norm] :
             {std::pair{true, true}, std::pair{false, true}, std::pair{true, false}}) {
          const auto run = [&, sum = from_sum, norm = from_norm](bool fused) {
            const std::vector<at::Tensor> in = {leaf(given[0]), leaf(given[1]), leaf(scale),
                                                leaf(bias)};
            at::Tensor s, y;
            if (fused) {
              std::tie(s, y) = add_layer_norm(in[0], in[1], in[2], in[3], kEps, type);
            } else {
              s = in[0] + in[1];
              y = layer_norm(s, in[2], in[3], kEps, type);
            }
            std::vector<at::Tensor> ends, gradients;
            if (sum) ends.push_back(s), gradients.push_back(above);
            if (norm) ends.push_back(y), gradients.push_back(grad);
            torch::autograd::backward(ends, gradients);
            return std::vector<at::Tensor>{s,           y, in[0].grad(), in[1].grad(), in[2].grad(),
                                           in[3].grad()};
          };
          const std::vector<at::Tensor> ours = run(true), theirs = run(false);
          CHECK(ours[0].equal(theirs[0]));
          CHECK(ours[1].equal(theirs[1]));
          for (size_t i = 2; i < ours.size(); ++i) {
            REQUIRE(ours[i].defined() == theirs[i].defined());
            if (!ours[i].defined()) continue;
            CHECK(ours[i].scalar_type() == theirs[i].scalar_type());
            const double bound = i == 3 && branch_type == at::kBFloat16 ? 0x1p-7 : 1e-5;
            CHECK(at::allclose(ours[i].to(at::kDouble), theirs[i].to(at::kDouble), bound, bound));
          }
        }
      }
    }
  }
}

TEST_CASE("layer_norm takes any layout, and has the same bits with any number of threads") {
  const at::Tensor scale = leaf(norm_noise({64}, 2)), bias = leaf(norm_noise({64}, 3));
  // (2640, 50, 64), not contiguous; LibTorch adds the chunks' sums in several threads.
  const at::Tensor x = norm_noise({2640, 64, 50}, 1).transpose(1, 2);
  const auto run = [&](const at::Tensor& given) {
    scale.mutable_grad().reset();
    const at::Tensor input = leaf(given), y = layer_norm(input, scale, bias, kEps, at::kFloat);
    y.backward(at::ones({1}).expand(y.sizes()));  // a gradient without memory
    return std::vector<at::Tensor>{y.detach(), input.grad(), scale.grad()};
  };
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const std::vector<at::Tensor> one = run(x), dense = run(x.contiguous());
  at::set_num_threads(3);
  const std::vector<at::Tensor> three = run(x);
  at::set_num_threads(threads);
  for (size_t i = 0; i < one.size(); ++i) {
    CHECK(one[i].equal(dense[i]));
    CHECK(one[i].equal(three[i]));
  }
}

// (k, k, in, out), stored as (out, k, k, in).
at::Tensor kernel_of(std::vector<int64_t> shape, double size) {
  const at::Tensor rows = norm_noise({shape[3], shape[0], shape[1], shape[2]}, 1).contiguous();
  return (rows * size + 0.5 * size).permute({1, 2, 3, 0});
}

TEST_CASE("standardize and its gradient are those of LibTorch's operators") {
  // 7x7x3 is not a multiple of a vector. The last kernel is small, so that the epsilons matter.
  const std::vector<at::Tensor> kernels = {kernel_of({7, 7, 3, 5}, 2), kernel_of({1, 1, 64, 9}, 2),
                                           kernel_of({3, 3, 16, 200}, 2e-5)};
  for (const at::Tensor& given : kernels) {
    for (const auto rule : {StandardizeRule::bit, StandardizeRule::bit_paper}) {
      for (const auto type : {at::kFloat, at::kBFloat16}) {
        const at::Tensor kernel = leaf(given), wide = leaf(given.to(at::kDouble));
        const at::Tensor grad = norm_noise(given.sizes().vec(), 2).contiguous().to(type);
        const at::Tensor ours = standardize(kernel, rule, type);
        const at::Tensor theirs = standardize(wide, rule, at::kDouble);
        CHECK(ours.scalar_type() == type);
        CHECK(ours.strides() == kernel.strides());
        CHECK(near(ours, theirs));
        ours.backward(grad);
        theirs.backward(grad.to(at::kDouble));
        CHECK(kernel.grad().strides() == kernel.strides());
        const double scale = wide.grad().abs().max().item<double>();
        CHECK(near(kernel.grad() / scale, wide.grad() / scale));
      }
    }
  }
}

}  // namespace
}  // namespace bv::test
