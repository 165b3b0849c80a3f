// Batch norm for any size, as ranks use it, compared with LibTorch's.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <catch2/catch.hpp>

#include "lib/model/kernels/batch_norm.h"
#include "lib/model/layers/batch_norm.h"

namespace bv::test {
namespace {

struct Gradients {
  at::Tensor y, dx, dscale, dbias;
};

template <class Normalise>
Gradients gradients(const at::Tensor& x, const Normalise& normalise) {
  const auto generator = at::detail::createCPUGenerator(3);
  const int64_t c = x.size(1);
  at::Tensor leaf = x.detach().clone().requires_grad_(true);
  at::Tensor scale = at::rand({c}, generator, at::kFloat).requires_grad_(true);
  at::Tensor bias = at::rand({c}, generator, at::kFloat).requires_grad_(true);
  const at::Tensor y = normalise(leaf, scale, bias);
  y.backward(at::randn(y.sizes(), generator, at::kFloat).to(y.scalar_type()));
  return {y.detach(), leaf.grad(), scale.grad(), bias.grad()};
}

}  // namespace

TEST_CASE("batch norm of any size") {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const bool channels_last : {false, true}) {
      INFO(c10::toString(type) << " " << channels_last);
      at::Tensor x = at::randn({6, 5, 7, 3}, at::detail::createCPUGenerator(1), at::kFloat) * 2 + 9;
      x = x.to(type);
      if (channels_last) x = x.contiguous(at::MemoryFormat::ChannelsLast);
      CHECK_FALSE(batch_norm_fits(x, false));
      const BatchStatistics statistics = batch_statistics(x);
      CHECK(statistics.rows == 6 * 7 * 3);
      const at::Tensor wide = x.to(at::kDouble);
      CHECK(at::allclose(statistics.mean.to(at::kDouble), wide.mean({0, 2, 3}), 1e-6));
      CHECK(at::allclose(statistics.var.to(at::kDouble), wide.var({0, 2, 3}, false), 1e-6));
      const Gradients ours =
          gradients(x, [&](const auto& leaf, const auto& scale, const auto& bias) {
            return batch_norm_over_ranks(leaf, scale, bias, statistics, 1e-5);
          });
      const Gradients torch =
          gradients(x, [](const auto& leaf, const auto& scale, const auto& bias) {
            return at::batch_norm(leaf.to(at::kFloat), scale, bias, {}, {}, true, 0, 1e-5, false)
                .to(leaf.scalar_type());
          });
      const double bound = type == at::kFloat ? 2e-5 : 2e-2;
      CHECK(ours.y.scalar_type() == type);
      CHECK(at::allclose(ours.y, torch.y, bound, bound));
      CHECK(at::allclose(ours.dx, torch.dx, bound, bound));
      CHECK(at::allclose(ours.dscale, torch.dscale, bound, bound));
      CHECK(at::allclose(ours.dbias, torch.dbias, bound, bound));
    }
  }
}

TEST_CASE("a frozen batch norm uses its running statistics in the training, and keeps them") {
  const auto generator = at::detail::createCPUGenerator(5);
  // The fused kernels take 16 channels in channels_last.
  for (const int64_t c : {5, 16}) {
    for (const bool max_pool : {false, true}) {
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        INFO(c << " channels, " << max_pool << ", " << c10::toString(type));
        Module owner;
        const BatchNorm norm = BatchNorm::add(owner, "norm", c);
        for (const at::Tensor& each : {norm.scale, norm.bias, norm.mean, norm.var})
          each.detach().copy_(at::rand({c}, generator, at::kFloat) + 0.5);
        CHECK(owner.has_batch_statistics());
        const at::Tensor mean = norm.mean.clone(), var = norm.var.clone();
        at::Tensor x = at::randn({4, c, 6, 8}, generator, at::kFloat) * 2 + 1;
        x = x.to(type).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_(true);
        Pass train;
        train.train = true;
        norm.scale.set_requires_grad(false);
        norm.bias.set_requires_grad(false);
        CHECK_FALSE(owner.has_batch_statistics());
        const at::Tensor y = norm.relu(x, max_pool, train);
        CHECK(norm.mean.equal(mean));
        CHECK(norm.var.equal(var));
        const double bound = type == at::kFloat ? 1e-5 : 4e-2;
        CHECK(y.scalar_type() == type);
        const at::Tensor grad = at::randn(y.sizes(), generator, at::kFloat).to(type);
        y.backward(grad);

        const at::Tensor copy = x.detach().to(at::kFloat).requires_grad_(true);
        at::Tensor plain =
            at::relu(at::batch_norm(copy, norm.scale, norm.bias, mean, var,
                                    /*training=*/false, 0.1, BatchNorm::kEps, false));
        if (max_pool) plain = at::max_pool2d(plain, 2);
        CHECK(at::allclose(y.detach().to(at::kFloat), plain.detach(), bound, bound));
        if (type == at::kFloat) {
          const at::NoGradGuard no_grad;
          CHECK(at::allclose(y.detach(), norm.relu(x, max_pool, Pass()), bound, bound));
        }
        plain.backward(grad.to(at::kFloat));
        // Rounding may move an output near zero to the other side, or another value to the maximum.
        const at::Tensor off = (x.grad().to(at::kFloat) - copy.grad()).abs();
        CHECK((off > bound * 4).sum().item<int64_t>() <= (type == at::kFloat ? 2 : x.numel() / 50));

        norm.bias.set_requires_grad(true);  // only partly frozen
        norm.relu(x.detach(), max_pool, train);
        CHECK_FALSE(norm.mean.equal(mean));
        CHECK_FALSE(norm.var.equal(var));
      }
    }
  }
}

TEST_CASE("batch norm of one value per channel keeps the running variance finite") {
  Module owner;
  const BatchNorm norm = BatchNorm::add(owner, "norm", 5);
  norm.scale.detach().fill_(1);
  norm.bias.detach().fill_(1);
  const at::Tensor x = at::full({1, 5, 1, 1}, 3, at::kFloat).requires_grad_(true);
  Pass train;
  train.train = true;
  const at::Tensor y = norm.relu(x, /*max_pool=*/false, train);
  y.sum().backward();
  CHECK(at::allclose(y, at::ones_like(y), 1e-3, 1e-3));
  CHECK(x.grad().isfinite().all().item<bool>());
  CHECK(at::allclose(norm.mean, at::full({5}, 0.3, at::kFloat)));
  CHECK(at::allclose(norm.var, at::full({5}, 0.9, at::kFloat)));
}

}  // namespace bv::test
