// mlp_mixer: big_vision's numbers, padding, stochastic depth, sizes, keys.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "lib/config/load_config.h"
#include "test/models/golden_case.h"
#include "test/support/error.h"
#include "test/support/model.h"

namespace bv::test {
namespace {

constexpr const char* kSmall =
    "{patch_size: [8, 8], num_blocks: 3, hidden_dim: 16, tokens_mlp_dim: 8, channels_mlp_dim: 8";

std::unique_ptr<Model> build_mixer(const std::string& yaml, ModelEnv env = {10, 32, 32, 3}) {
  return make_model("mlp_mixer", yaml, env);
}

int64_t mixer_parameters(const std::string& yaml) {
  const MetaDevice guard;
  int64_t count = 0;
  for (const auto& [name, value] : named_parameters(*build_mixer(yaml, {1000, 224, 224, 3}))) {
    count += value.numel();
  }
  return count;
}

TEST_CASE("mlp_mixer: logits, activations, loss and gradients equal the reference's") {
  check_golden_case("mixer");
}

TEST_CASE("mlp_mixer: variants have the published sizes") {
  // "MLP-Mixer" (Tolstikhin et al. 2021), table 1, lists 18 M, 59 M, 207 M and 431 M without the
  // head. The exact numbers are those of timm's mixer_*_224.
  CHECK(mixer_parameters("variant: S/16") == 18528264);
  CHECK(mixer_parameters("variant: S/32") == 19104624);
  CHECK(mixer_parameters("variant: B/16") == 59880472);
  CHECK(mixer_parameters("variant: L/16") == 208196168);
  CHECK(mixer_parameters("{variant: H/14}") == Approx(431e6).epsilon(0.01));
}

TEST_CASE("mlp_mixer: images are padded to whole patches, more at the right and the bottom") {
  const auto padded = build_mixer(std::string(kSmall) + "}", {10, 29, 22, 3});  // 4 x 3 patches
  const auto whole = build_mixer(std::string(kSmall) + "}", {10, 32, 24, 3});
  for (const auto& model : {padded.get(), whole.get()}) init_parameters(*model, 1, std::nullopt);
  const at::Tensor image = at::randn({2, 29, 22, 3}, at::detail::createCPUGenerator(1), at::kFloat);
  const at::Tensor framed = at::zeros({2, 32, 24, 3});
  framed.narrow(1, 1, 29).narrow(2, 1, 22).copy_(
      image);  // 1 of 3 rows above, 1 of 2 columns on the left
  const c10::InferenceMode inference;
  Features of_padded, of_whole;
  Pass pass;
  pass.features = &of_padded;
  padded->forward(image, pass);
  pass.features = &of_whole;
  whole->forward(framed, pass);
  CHECK(of_padded.at("stem").sizes() == at::IntArrayRef({2, 4, 3, 16}));
  CHECK(of_padded.at("pre_logits").equal(of_whole.at("pre_logits")));
  CHECK(of_padded.at("input_tokens").equal(of_padded.at("stem").flatten(1, 2)));
}

TEST_CASE("mlp_mixer: stochastic depth leaves out branches of examples in training only") {
  const auto deep = build_mixer(std::string(kSmall) + ", stoch_depth: 1}");
  const auto plain = build_mixer(std::string(kSmall) + "}");
  for (const auto& model : {deep.get(), plain.get()}) init_parameters(*model, 1, std::nullopt);
  const at::Tensor image =
      at::randn({64, 32, 32, 3}, at::detail::createCPUGenerator(1), at::kFloat);
  const c10::InferenceMode inference;
  const auto features = [&](Model& model, bool train, int64_t step) {
    Features kept;
    Pass pass;
    pass.train = train;
    pass.step = step;
    pass.features = &kept;
    model.forward(image, pass);
    CHECK(pass.next_dropout == (train && &model == deep.get() ? 4 : 0));  // not in block 0
    return kept;
  };
  Features full = features(*plain, true, 1), trained = features(*deep, true, 1);
  CHECK(features(*deep, false, 1).at("pre_logits").equal(full.at("pre_logits")));
  CHECK(trained.at("block_0").equal(full.at("block_0")));
  // The rate is 1 in the last block, and 1/2 for each branch of the middle one.
  CHECK(trained.at("block_2").equal(trained.at("block_1")));
  const at::Tensor kept = (trained.at("block_1") - trained.at("block_0")).flatten(1).abs().amax(1);
  const int64_t none = (kept == 0).sum().item<int64_t>();
  CHECK(none > 64 / 4 - 14);  // 4 standard deviations
  CHECK(none < 64 / 4 + 14);
  CHECK(features(*deep, true, 1).at("block_1").equal(trained.at("block_1")));
  CHECK_FALSE(features(*deep, true, 2).at("block_1").equal(trained.at("block_1")));
}

TEST_CASE("mlp_mixer: keys override the variant; bad keys are named with their place") {
  const auto model = build_mixer("{variant: S/16, num_blocks: 1, patch_size: [8, 4]}");
  CHECK(named_parameters(*model)[0].second.sizes() == at::IntArrayRef({8, 4, 3, 512}));
  CHECK(named_parameters(*model).back().first == "head/bias");
  const auto error = [](const std::string& yaml) -> std::string {
    return error_of([&] { build_mixer(yaml); });
  };
  CHECK(error("variant: S") ==
        "m.yaml:1:10: error: variant: 'S': a patch size must follow, as in 'S/16'");
  CHECK(error("variant: S/0") ==
        "m.yaml:1:10: error: variant: 'S/0': a patch size must follow the '/'");
  CHECK(error("variant: Ti/16") ==
        "m.yaml:1:10: error: variant: unknown variant 'Ti'; known: S, B, L, H");
  CHECK(error("{variant: S/16, num_blocks: 0}") ==
        "m.yaml:1:29: error: num_blocks: must be positive, got 0");
  CHECK(error("{variant: S/16, stoch_depth: 1.5}") ==
        "m.yaml:1:30: error: stoch_depth: must be in [0, 1], got 1.5");
  CHECK(error("{variant: S/16, patch_size: [16]}") ==
        "m.yaml:1:29: error: patch_size: must be two positive numbers [rows, columns]");
  CHECK(error("{variant: S/16, dropout: 0.1}").find("unknown key 'dropout'") != std::string::npos);
  CHECK(error("{num_blocks: 2}").find("hidden_dim") != std::string::npos);
}

}  // namespace
}  // namespace bv::test
