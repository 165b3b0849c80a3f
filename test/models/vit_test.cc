// vit: the reference's numbers (golden models/vit_*.npz), sizes, features, dropout, remat, scan,
// keys.
#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <catch2/catch.hpp>
#include <map>
#include <string_view>

#include "lib/config/load_config.h"
#include "lib/model/model.h"
#include "test/models/golden_case.h"
#include "test/models/parameter_count.h"
#include "test/support/error.h"
#include "test/support/model.h"

namespace bv::test {
namespace {

TEST_CASE("vit: logits, activations, loss and gradients equal the reference's") {
  const std::string name =
      GENERATE("vit_gap_learn_rep", "vit_tok_learn", "vit_map_learn", "vit_gap_sincos_nonsquare",
               "vit_0_sincos_rep48", "vit_scan_tok", "vit_tok_square");
  check_golden_case(name);
}

TEST_CASE("vit: dtype_mm bfloat16 gives the reference's logits, whatever the precision") {
  if (golden_file("models/vit_gap_bf16.io.npz").empty()) return;
  const GoldenCase loaded = load_golden_case("vit_gap_bf16");
  const c10::InferenceMode inference;
  Pass pass;
  const at::Tensor logits = loaded.model->forward(loaded.io.at("image"), pass);
  CHECK(logits.scalar_type() == at::kFloat);
  CHECK(worst(logits, loaded.io.at("logits")) <= 0.05);
  pass.precision = Precision::bf16;
  CHECK(loaded.model->forward(loaded.io.at("image"), pass).equal(logits));
  CHECK(pass.precision == Precision::bf16);
}

TEST_CASE("vit: precision bf16 is near float32 and keeps the residual stream in float32") {
  if (golden_file("models/vit_map_learn.io.npz").empty()) return;
  const GoldenCase loaded = load_golden_case("vit_map_learn");
  Features features;
  Pass pass;
  pass.precision = Precision::bf16;
  pass.features = &features;
  const c10::InferenceMode inference;
  const at::Tensor logits = loaded.model->forward(loaded.io.at("image"), pass);
  CHECK(close(logits, loaded.io.at("logits"), 0, 0.05));
  CHECK_FALSE(close(logits, loaded.io.at("logits"), 0, 1e-5));
  CHECK(features.at("encoder/block00/+mlp").scalar_type() == at::kFloat);
  CHECK(features.at("encoder/block00/sa").scalar_type() == at::kBFloat16);
}

std::unique_ptr<Model> build_vit(const std::string& yaml, int64_t classes = 10, int64_t size = 32) {
  return make_model("vit", yaml, {classes, size, size, 3});
}

TEST_CASE("a variant on the command line that a run's config.yaml overrides gives a warning") {
  const std::string file = "{width: 32, depth: 1, mlp_dim: 128, num_heads: 2, patch_size: [8, 8]";
  const auto warned = [](const std::string& yaml, const std::vector<Override>& overrides) {
    const Config config = parse_config(yaml, "config.yaml", overrides);
    Model::Registry::make("vit", config, Place(), {10, 32, 32, 3});
    return warnings(config);
  };
  const Override other{"variant", "Ti/4", "--set variant=Ti/4"};
  CHECK(warned(file + ", variant: mu/8}", {other}) ==
        std::vector<std::string>{"--set variant=Ti/4: warning: variant: has no effect, because "
                                 "config.yaml gives width, depth, mlp_dim, num_heads, patch_size"});
  CHECK(warned(file + ", variant: mu/16}", {}).empty());  // the file itself
  CHECK(warned("{width: 32, num_heads: 2, depth: 1}", {other}).empty());
}

TEST_CASE("vit: variants have the published sizes, and keys override them") {
  const MetaDevice guard;
  // Parameters at 224 px and 1000 classes. Ti, S, B, L: "How to train your ViT" (Steiner et al.
  // 2022), less 2 * D for cls and its position, which are left out here. g and G: "Scaling vision
  // transformers".
  CHECK(parameter_count(*build_vit("{variant: Ti/16}", 1000, 224)) == 5717416 - 2 * 192);
  CHECK(parameter_count(*build_vit("{variant: S/16}", 1000, 224)) == 22050664 - 2 * 384);
  CHECK(parameter_count(*build_vit("{variant: B/16}", 1000, 224)) == 86567656 - 2 * 768);
  CHECK(parameter_count(*build_vit("{variant: L/16}", 1000, 224)) == 304326632 - 2 * 1024);
  CHECK(parameter_count(*build_vit("{variant: g/14}", 0, 224)) == Approx(1011e6).epsilon(0.005));
  CHECK(parameter_count(*build_vit("{variant: G/14}", 0, 224)) == Approx(1843e6).epsilon(0.005));

  const auto model = build_vit("{variant: mu/4, patch_size: [8, 16], width: 48, depth: 3}");
  const auto all = named_parameters(*model);
  CHECK(all[0].second.sizes() == at::IntArrayRef({8, 16, 3, 48}));
  CHECK(all.back().first == "head/bias");
  CHECK(std::count_if(all.begin(), all.end(), [](const auto& entry) {
          return entry.first.ends_with("LayerNorm_0/scale");
        }) == 3);
  bool found = false;
  for (const auto& [name, parameter] : all) {
    if (name != "Transformer/encoderblock_2/MlpBlock_0/Dense_0/kernel") continue;
    found = true;
    CHECK(parameter.sizes() == at::IntArrayRef({48, 128}));  // the variant's mlp_dim
  }
  CHECK(found);
}

TEST_CASE("vit: without classes it returns pre_logits; pool none keeps the tokens") {
  const c10::InferenceMode inference;
  Pass pass;
  const at::Tensor image = at::zeros({2, 32, 32, 3});
  CHECK(build_vit("{variant: mu/8, rep_size: 24}", 0)->forward(image, pass).sizes() ==
        at::IntArrayRef({2, 24}));
  CHECK(build_vit("{variant: mu/8, pool_type: none}")->forward(image, pass).sizes() ==
        at::IntArrayRef({2, 16, 10}));
}

TEST_CASE("vit: features have the reference's names, and are computed on demand") {
  const c10::InferenceMode inference;
  const auto names = [](const std::string& yaml) {
    Features features;
    Pass pass;
    pass.features = &features;
    build_vit(yaml)->forward(at::zeros({1, 32, 32, 3}), pass);
    std::string all;
    for (const auto& [name, value] : features) all += name + ' ';
    return all;
  };
  const std::string block =
      "encoder/block00/+mlp encoder/block00/+sa encoder/block00/mlp encoder/block00/sa ";
  CHECK(
      names("{variant: mu/8, pool_type: 0}") ==
      "encoded " + block +
          "encoder/pre_ln head_input logits logits_2d pre_logits pre_logits_2d stem with_posemb ");
  CHECK(names("{variant: mu/8, scan: true}") ==
        "encoded " + block +
            "head_input logits logits_2d pre_logits pre_logits_2d stem with_posemb ");
}

// Returns how often a forward pass that collects `wanted` calls tanh. Only the layer before the
// head does so.
int tanh_calls(const std::vector<std::string>& wanted) {
  static int calls;
  calls = 0;
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(
      [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
        calls += std::string_view(function.name()) == "aten::tanh" ? 1 : 0;
        return nullptr;
      }));
  const c10::InferenceMode inference;
  Features features;
  Pass pass;
  pass.features = &features;
  pass.wanted = &wanted;
  build_vit("{variant: mu/8, rep_size: true}")->forward(at::zeros({1, 32, 32, 3}), pass);
  at::removeCallback(handle);
  CHECK(features.size() == wanted.size());
  return calls;
}

TEST_CASE("vit: the head runs on every token only if that is requested") {
  CHECK(tanh_calls({}) == 1);
  CHECK(tanh_calls({"pre_logits", "logits"}) == 1);
  CHECK(tanh_calls({"pre_logits_2d"}) == 2);
  CHECK(tanh_calls({"logits_2d", "pre_logits_2d"}) == 2);
}

TEST_CASE("vit: dropout acts in training only and repeats with the step") {
  auto model = build_vit("{variant: mu/8, dropout: 0.5, head_zeroinit: false}");
  init_parameters(*model, 1, std::nullopt);
  const at::Tensor image = at::ones({2, 32, 32, 3});
  const auto logits = [&](bool train, int64_t step) {
    const c10::InferenceMode inference;
    Pass pass;
    pass.train = train;
    pass.step = step;
    const at::Tensor result = model->forward(image, pass);
    CHECK(pass.next_dropout == (train ? 4 : 0));  // embedding, attention, in the MLP, after it
    return result;
  };
  CHECK(logits(true, 1).equal(logits(true, 1)));
  CHECK_FALSE(logits(true, 1).equal(logits(true, 2)));
  CHECK(logits(false, 1).equal(logits(false, 2)));
}

// Returns the values and gradients of a training step, in the order of named_parameters.
std::vector<at::Tensor> train_once(const std::string& yaml, int64_t height, int64_t width) {
  const auto model = make_model("vit", yaml, {10, height, width, 3});
  init_parameters(*model, 1, std::nullopt);
  Pass pass;
  pass.train = true;
  pass.seed = 3;
  pass.step = 5;
  const at::Tensor image =
      at::randn({2, height, width, 3}, at::detail::createCPUGenerator(1), at::kFloat);
  const at::Tensor logits = model->forward(image, pass);
  logits.square().sum().backward();
  std::vector<at::Tensor> all = {logits.detach()};
  for (const auto& [name, parameter] : named_parameters(*model)) all.push_back(parameter.grad());
  return all;
}

TEST_CASE("vit: remat_policy changes no value and no gradient") {
  for (const std::string scan : {"false", "true"}) {
    for (const std::string more : {"", ", dtype_mm: bfloat16", ", pool_type: map"}) {
      const auto with = [&](const std::string& policy) {
        return train_once("{variant: mu/8, depth: 3, dropout: 0.2, head_zeroinit: false, scan: " +
                              scan + more + ", remat_policy: " + policy + "}",
                          32, 32);
      };
      const auto plain = with("none"), again = with("nothing_saveable");
      INFO("scan " << scan << more);
      REQUIRE(plain.size() == again.size());
      for (size_t i = 0; i < plain.size(); ++i) CHECK(plain[i].equal(again[i]));
      const auto all = with("everything_saveable");
      for (size_t i = 0; i < plain.size(); ++i) CHECK(plain[i].equal(all[i]));
    }
  }
}

TEST_CASE("vit: scan's stacked parameters give what separate blocks give") {
  auto blocks = build_vit("{variant: mu/8, depth: 3, head_zeroinit: false}");
  auto scan = build_vit("{variant: mu/8, depth: 3, head_zeroinit: false, scan: true}");
  init_parameters(*scan, 1, std::nullopt);
  const auto stacked = named_parameters(*scan);
  const std::map<std::string, at::Tensor> all(stacked.begin(), stacked.end());
  for (auto& [name, parameter] : named_parameters(*blocks)) {
    INFO(name);
    const std::string prefix = "Transformer/encoderblock_";
    if (!name.starts_with(prefix)) {
      parameter.detach().copy_(all.at(name).detach());
      continue;
    }
    const size_t slash = name.find('/', prefix.size());
    const int64_t layer = std::stoll(name.substr(prefix.size(), slash - prefix.size()));
    parameter.detach().copy_(
        all.at("Transformer/encoderblock" + name.substr(slash)).detach().select(0, layer));
  }
  const c10::InferenceMode inference;
  const at::Tensor image = at::randn({2, 32, 32, 3}, at::detail::createCPUGenerator(1), at::kFloat);
  Pass pass;
  CHECK(scan->forward(image, pass).equal(blocks->forward(image, pass)));
}

TEST_CASE("vit: patches and images need not be square") {
  const Config config = parse_config("{variant: mu, patch_size: [4, 6], pool_type: tok}", "v");
  const auto model = Model::Registry::make("vit", config, Place(), ModelEnv{10, 18, 25, 3});
  init_parameters(*model, 1, std::nullopt);
  const at::Tensor image = at::randn({2, 18, 25, 3}, at::detail::createCPUGenerator(1), at::kFloat);
  const c10::InferenceMode inference;
  Features features;
  Pass pass;
  pass.features = &features;
  model->forward(image, pass);
  std::map<std::string, at::Tensor> p;
  for (const auto& [name, parameter] : named_parameters(*model)) p[name] = parameter;
  CHECK(p.at("pos_embedding").sizes() == at::IntArrayRef({1, 16, 32}));
  const at::Tensor conv =
      at::conv2d(image.permute({0, 3, 1, 2}), p.at("embedding/kernel").permute({3, 2, 0, 1}),
                 p.at("embedding/bias"), {4, 6});
  CHECK(at::allclose(features.at("stem"), conv.permute({0, 2, 3, 1}), 1e-4, 1e-5));
  CHECK(features.at("logits_2d").sizes() == at::IntArrayRef({2, 4, 4, 10}));
}

TEST_CASE("vit: pixels that fill no patch are named") {
  const MetaDevice guard;
  const auto warning = [](const std::string& yaml, int64_t height, int64_t width) {
    const Config config = parse_config(yaml, "m.yaml");
    Model::Registry::make("vit", config, Place(), ModelEnv{10, height, width, 3});
    std::string lines;
    for (const std::string& line : warnings(config)) lines += line;
    return lines;
  };
  CHECK(
      warning("{variant: mu/4}", 30, 30) ==
      "m.yaml:1:11: warning: variant: images of 30x30 with patches of 4x4: the last 2 columns and "
      "2 rows of pixels are not used");
  CHECK(warning("{variant: mu/16, patch_size: [8, 4]}", 33, 32) ==
        "m.yaml:1:30: warning: patch_size: images of 33x32 with patches of 8x4: the last 1 row of "
        "pixels is not used");
  CHECK(
      warning("{variant: mu/16}", 224, 231) ==
      "m.yaml:1:11: warning: variant: images of 224x231 with patches of 16x16: the last 7 columns "
      "of pixels are not used");
  CHECK(warning("{variant: mu/16}", 224, 224).empty());
}

TEST_CASE("vit: bad keys are named with their place") {
  const auto error = [](const std::string& yaml) -> std::string {
    return error_of([&] { build_vit(yaml); });
  };
  CHECK(error("variant: Q/16") ==
        "m.yaml:1:10: error: variant: unknown variant 'Q'; known: mu, Ti, S, M, B, L, So400m, H, "
        "g, "
        "g-opt, G, G-opt, e");
  CHECK(error("variant: S/x") ==
        "m.yaml:1:10: error: variant: 'S/x': a patch size must follow the '/'");
  CHECK(error("num_heads: 7") ==
        "m.yaml:1:12: error: num_heads: 7 heads do not divide a width of 768");
  CHECK(error("patch_size: [64, 64]") ==
        "m.yaml:1:13: error: patch_size: patches of 64x64 are larger than the images of 32x32");
  CHECK(error("patch_size: 16") == "m.yaml:1:13: error: patch_size: expected a list, got '16'");
  CHECK(error("patch_size: [16]") ==
        "m.yaml:1:13: error: patch_size: must be two positive numbers [rows, columns]");
  CHECK(error("rep_size: maybe") ==
        "m.yaml:1:11: error: rep_size: expected true, false or a size, got 'maybe'");
  CHECK(error("{width: 6, num_heads: 1, posemb: sincos2d}") ==
        "m.yaml:1:34: error: posemb: sincos2d needs a width that is a multiple of 4 and at least "
        "8, "
        "got 6");
  CHECK(error("dropout: 1") == "m.yaml:1:10: error: dropout: must be in [0, 1)");
  CHECK(error("pool_type: max") ==
        "m.yaml:1:12: error: pool_type: expected one of gap, map, tok, 0, none, got 'max' (did you "
        "mean 'map'?)");
  CHECK(error("remat_policy: nothing_savable") ==
        "m.yaml:1:15: error: remat_policy: expected one of nothing_saveable, everything_saveable, "
        "none, got 'nothing_savable' (did you mean 'nothing_saveable'?)");
}

}  // namespace
}  // namespace bv::test
