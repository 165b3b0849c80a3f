// Muon only: the matrix that it computes from a gradient, and the parameters that it leaves to
// Adam. optim_test.cc compares whole updates with plain code.
#include <ATen/ops/linalg_svd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "lib/config/load_config.h"
#include "lib/model/layers/stacked.h"
#include "test/optim/optimizer_calls.h"
#include "test/params/flat_views.h"
#include "test/support/tiny_model.h"

namespace bv::test {
namespace {

// Updates a model of one kernel once with Muon. Both tensors have the kernel's shape.
struct MuonStep {
  struct OneKernel : Model {
    OneKernel(int64_t layers, std::vector<int64_t> shape, std::vector<int64_t> physical) {
      add_stacked(*this, layers, "a/kernel", std::move(shape), zeros(), std::move(physical));
      init_parameters(*this, 1, std::nullopt);
    }
    at::Tensor forward(const at::Tensor& image, Pass&) override { return image; }
  };

  MuonStep(int64_t layers, const std::vector<int64_t>& shape,
           const std::vector<int64_t>& physical) {
    OneKernel model(layers, shape, physical);
    const std::vector<int> groups = {0};
    const FlatParams params(model, groups);
    const auto muon = make("muon", "{adjust_lr: original}");
    muon->allocate(params);
    fill_gradients(params, 0);
    const FlatParams::Entry& kernel = params.entries()[0];
    gradient = params.grads().as_strided(kernel.shape, kernel.strides).clone();
    const std::vector<UpdateRange> ranges = {{.begin = 0, .end = params.trainable_size()}};
    muon->update(params, ranges, {.numbers = numbers_of(*muon, 0, {1})}, nullptr);
    update = -named_parameters(model)[0].second.detach();
  }
  at::Tensor gradient, update;
};

// Returns U^T update V divided by the scale of `original`, where U and V are the singular vectors
// of the gradient. It is near the identity if the update has the same vectors and singular values
// near 1.
at::Tensor in_singular_basis(const at::Tensor& gradient, const at::Tensor& update, int64_t inputs) {
  const at::Tensor matrix = gradient.reshape({inputs, -1});
  const auto [u, values, vt] = at::linalg_svd(matrix, /*full_matrices=*/false);
  const double out = static_cast<double>(matrix.size(1)), in = static_cast<double>(inputs);
  return u.t().mm(update.reshape({inputs, -1})).mm(vt.t()) / std::sqrt(std::max(1.0, out / in));
}

}  // namespace

TEST_CASE(
    "muon keeps singular vectors and brings singular values near 1, for kernels of any form") {
  struct Form {
    std::vector<int64_t> shape, physical;
    int64_t inputs;
  };
  for (const Form& form :
       {Form{{40, 24}, {}, 40}, Form{{24, 40}, {1, 0}, 24}, Form{{3, 3, 8, 16}, {3, 0, 1, 2}, 72},
        Form{{3, 3, 1, 32}, {}, 9}, Form{{24, 3, 8}, {1, 2, 0}, 24},
        Form{{3, 8, 24}, {2, 0, 1}, 24}, Form{{1, 24, 24}, {}, 24}, Form{{24, 24, 1}, {}, 24}}) {
    for (const int64_t layers : {0, 3}) {
      INFO(at::IntArrayRef(form.shape) << " of " << layers << " layers");
      const MuonStep step(layers, form.shape, form.physical);
      for (int64_t i = 0; i < std::max<int64_t>(layers, 1); ++i) {
        const at::Tensor gradient = layers > 0 ? step.gradient[i] : step.gradient;
        const at::Tensor update = layers > 0 ? step.update[i] : step.update;
        const at::Tensor basis = in_singular_basis(gradient, update, form.inputs);
        CHECK(basis.diagonal().min().item<float>() > 0.5F);
        CHECK(basis.diagonal().max().item<float>() < 1.25F);
        CHECK((basis - basis.diagonal().diag()).abs().max().item<float>() < 1e-3F);
      }
    }
  }
}

TEST_CASE("by default Adam trains the embedding of patches, the head, and what is not a kernel") {
  const Config config = parse_config(
      "model: {patch_size: [4, 4], hidden_dim: 8, num_blocks: 1, tokens_mlp_dim: 4, "
      "channels_mlp_dim: 8}",
      "t.yaml");
  for (const char* name : {"mlp_mixer", "vit"}) {
    const bool vit = name == std::string("vit");
    const Config keys = vit ? parse_config("model: {variant: mu/4, depth: 1}", "t.yaml") : config;
    const auto model = Model::Registry::make(name, keys.section("model"), {}, ModelEnv{5, 8, 8, 3});
    init_parameters(*model, 1, std::nullopt);
    const std::vector<int> groups(model->parameters().size(), 0);
    const FlatParams params(*model, groups);
    const auto muon = make("muon", "{}");
    muon->allocate(params);
    fill_gradients(params, 0);
    const std::vector<UpdateRange> ranges = {{.begin = 0, .end = params.trainable_size()}};
    muon->update(params, ranges, {.numbers = numbers_of(*muon, 0, {1})}, nullptr);
    REQUIRE(muon->slots()[1].name == "nu");
    for (const auto& [parameter, nu] : flat_views(params, muon->slots()[1].flat, "")) {
      INFO(parameter);
      const bool outer = parameter == "embedding/kernel" || parameter == "stem/kernel" ||
                         parameter == "head/kernel";
      CHECK(nu.any().item<bool>() == (outer || !parameter.ends_with("/kernel")));
    }
  }
}

TEST_CASE("muon says when there is no kernel for it") {
  TinyModel model;
  const std::vector<int> groups = {0, 0, 0, 0};
  const FlatParams params(model, groups);
  CHECK_THROWS_WITH(
      make("muon", "{adam_for: ['.*']}")->allocate(params),
      "error: optax_name: muon has nothing to do: no kernels are trained except those of "
      "optax.adam_for; use 'optax_name: scale_by_adam'");
}

}  // namespace bv::test
