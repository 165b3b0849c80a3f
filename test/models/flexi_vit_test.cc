// flexi_vit: without resizing it equals vit; otherwise it resizes patches and positions.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <map>

#include "lib/ckpt/formats/npz.h"
#include "lib/config/load_config.h"
#include "lib/model/model.h"
#include "lib/model/transformer/resample.h"
#include "test/support/compare.h"
#include "test/support/error.h"
#include "test/support/model.h"

namespace bv::test {
namespace {

std::unique_ptr<Model> build_initialised(const std::string& name, const std::string& yaml,
                                         ModelEnv env = {10, 32, 32, 3}) {
  auto model = make_model(name, yaml, env);
  init_parameters(*model, 1, std::nullopt);
  return model;
}

std::map<std::string, at::Tensor> detached_tensors(const Model& model) {
  std::map<std::string, at::Tensor> all;
  for (const auto& [name, parameter] : named_parameters(model)) all[name] = parameter.detach();
  return all;
}

at::Tensor two_images(int64_t height, int64_t width) {
  return at::randn({2, height, width, 3}, at::detail::createCPUGenerator(1), at::kFloat);
}

Features features_of(Model& model, const at::Tensor& image) {
  const c10::InferenceMode inference;
  Features features;
  Pass pass;
  pass.features = &features;
  model.forward(image, pass);
  return features;
}

// scripts/golden/flexi_vit.py made test/golden/flexi_vit.npz with the reference's code.
TEST_CASE("flexi_vit: logits, activations and gradients equal the reference's") {
  const std::string size =
      "width: 16, depth: 1, mlp_dim: 24, num_heads: 2, head_zeroinit: false, pool_type: ";
  const auto [name, yaml] = GENERATE_REF(
      std::pair<std::string, std::string>(
          "tok", "{" + size + "tok, patch_size: [8, 8], posemb_size: [4, 4], seqhw: 5}"),
      std::pair<std::string, std::string>(
          "gap", "{" + size + "gap, patch_size: [6, 9], posemb_size: [7, 6], seqhw: 4}"),
      std::pair<std::string, std::string>(
          "map", "{" + size +
                     "map, patch_size: [8, 8], posemb_size: [3, 3], seqhw: 6, posemb: sincos2d}"));
  INFO(name);
  const NamedTensors golden =
      read_npz(std::string(BV_TEST_DIR) + "/golden/flexi_vit.npz", name + "/");
  const at::Tensor image = golden.at("image");
  const auto model = build_initialised("flexi_vit", yaml, {5, image.size(1), image.size(2), 3});
  for (auto& [path, parameter] : named_parameters(*model)) {
    INFO(path);
    REQUIRE(golden.count("params/" + path) == 1);
    REQUIRE(golden.at("params/" + path).sizes() == parameter.sizes());
    parameter.detach().copy_(golden.at("params/" + path));
  }
  Features features;
  Pass pass;
  pass.features = &features;
  const at::Tensor logits = model->forward(image, pass);
  const auto check_output = [](const at::Tensor& ours, const at::Tensor& theirs) {
    CHECK(worst(ours, theirs) / theirs.abs().max().item<double>() <= 2e-5);
  };
  check_output(logits, golden.at("logits"));
  logits.square().sum().backward();
  auto parameters = named_parameters(*model);
  const std::map<std::string, at::Tensor> all(parameters.begin(), parameters.end());
  size_t compared = 0;
  for (const auto& [path, value] : golden) {
    INFO(path);
    if (path.starts_with("out/")) check_output(features.at(path.substr(4)), value);
    if (path.starts_with("grad/")) {
      const at::Tensor grad = all.at(path.substr(5)).grad();
      CHECK(worst(grad, value) <= 1e-5 * value.norm().item<double>());
    }
    compared += path.starts_with("out/") || path.starts_with("grad/");
  }
  CHECK(compared >= 6);
}

TEST_CASE("flexi_vit: with its own patches and positions it equals vit") {
  const std::string pool = GENERATE("gap", "map", "tok");
  const std::string posemb = GENERATE("learn", "sincos2d");
  INFO(pool << ' ' << posemb);
  const std::string yaml =
      "{variant: mu/8, depth: 2, head_zeroinit: false, pool_type: " + pool + ", posemb: " + posemb;
  const auto vit = build_initialised("vit", yaml + "}");
  const auto flexi = build_initialised("proj.flexi.vit", yaml + ", posemb_size: [4, 4], seqhw: 4}");
  auto from = detached_tensors(*vit), to = detached_tensors(*flexi);
  REQUIRE(from.size() == to.size());
  for (const auto& [name, value] : from) {
    INFO(name);
    REQUIRE(to.at(name).sizes() == value.sizes());
    to.at(name).copy_(value);
  }
  const Features expected = features_of(*vit, two_images(32, 32)),
                 ours = features_of(*flexi, two_images(32, 32));
  CHECK(ours.size() == expected.size());
  for (const auto& [name, value] : expected) {
    INFO(name);
    CHECK(ours.at(name).equal(value));
  }
}

TEST_CASE("flexi_vit: enlarged patches give the tokens that the patches gave") {
  const std::string yaml = "{variant: mu, patch_size: [8, 8], posemb_size: [4, 4], seqhw: 4}";
  const auto small = build_initialised("flexi_vit", yaml),
             large = build_initialised("flexi_vit", yaml, {10, 64, 48, 3});
  const at::Tensor image = two_images(32, 32);
  const at::Tensor rows = linear_resize_matrix(8, 16, false).to(at::kFloat),
                   columns = linear_resize_matrix(8, 12, false).to(at::kFloat);
  // (n, gh, 8, gw, 8, c) to (n, gh, 16, gw, 12, c), each patch by itself
  const at::Tensor enlarged =
      at::einsum("yh,nghwvc,xv->ngywxc", {rows, image.view({2, 4, 8, 4, 8, 3}), columns})
          .reshape({2, 64, 48, 3});
  const at::Tensor before = features_of(*small, image).at("stem"),
                   after = features_of(*large, enlarged).at("stem");
  CHECK(after.sizes() == at::IntArrayRef({2, 4, 4, 32}));
  CHECK(at::allclose(after, before, 1e-3, 1e-4));
}

TEST_CASE("flexi_vit: for other grids the position embedding is resized with antialiasing") {
  const auto model = build_initialised(
      "flexi_vit", "{variant: mu, patch_size: [8, 8], posemb_size: [7, 6], seqhw: 5}",
      {10, 33, 20, 3});  // patches of 6 x 4: 5 x 5 tokens, three rows cut off
  const Features features = features_of(*model, two_images(33, 20));
  CHECK(features.at("logits_2d").sizes() == at::IntArrayRef({2, 5, 5, 10}));
  const at::Tensor stored = detached_tensors(*model).at("pos_embedding").view({7, 6, 32});
  const at::Tensor expected = at::_upsample_bilinear2d_aa(stored.permute({2, 0, 1}).unsqueeze(0),
                                                          {5, 5}, /*align_corners=*/false);
  const at::Tensor added = features.at("with_posemb") - features.at("stem").flatten(1, 2);
  CHECK(at::allclose(added[1], expected.flatten(2).squeeze(0).t(), 1e-4, 1e-5));
}

TEST_CASE("flexi_vit: the position embedding is resized for another grid with as many patches") {
  const auto [size, rows, columns] = GENERATE(
      table<std::string, int64_t, int64_t>({{"[2, 8]", 2, 8}, {"[8, 2]", 8, 2}, {"[4, 4]", 4, 4}}));
  INFO(size);
  const auto model = build_initialised(
      "flexi_vit", "{variant: mu, patch_size: [8, 8], seqhw: 4, posemb_size: " + size + "}");
  const Features features = features_of(*model, two_images(32, 32));
  const at::Tensor added = features.at("with_posemb") - features.at("stem").flatten(1, 2);
  const at::Tensor stored = detached_tensors(*model).at("pos_embedding").view({rows, columns, 32});
  const at::Tensor expected = at::_upsample_bilinear2d_aa(stored.permute({2, 0, 1}).unsqueeze(0),
                                                          {4, 4}, /*align_corners=*/false);
  CHECK(at::allclose(added[1], expected.flatten(2).squeeze(0).t(), 1e-4, 1e-5));
}

TEST_CASE("flexi_vit: the embedding starts normal with deviation 1 / sqrt(width)") {
  const at::Tensor kernel =
      detached_tensors(*build_initialised("flexi_vit", "{variant: S, depth: 1}"))
          .at("embedding/kernel");
  CHECK(kernel.sizes() == at::IntArrayRef({32, 32, 3, 384}));
  CHECK(kernel.std().item<double>() == Approx(1 / std::sqrt(384.0)).epsilon(0.005));
  CHECK(kernel.abs().max().item<double>() > 4 / std::sqrt(384.0));  // not truncated at 2
}

TEST_CASE("flexi_vit: in training each step draws its patch size") {
  const auto model =
      build_initialised("flexi_vit",
                        "{variant: mu, patch_size: [8, 8], posemb_size: [4, 4], seqhw: 4, flexi: "
                        "{seqhw: {v: [2, 5, 8, 16], p: [1, 3, 0, -1]}}}");
  const auto tokens = [&](bool train, int64_t step, uint64_t seed) {
    const c10::InferenceMode inference;
    Features features;
    Pass pass;
    pass.train = train;
    pass.step = step;
    pass.seed = seed;
    pass.features = &features;
    model->forward(two_images(32, 32), pass);
    return features.at("stem").size(1);
  };
  CHECK(tokens(false, 1, 0) == 4);
  std::map<int64_t, int> seen;
  bool seeds_differ = false;
  for (int64_t step = 0; step < 200; ++step) {
    const int64_t drawn = tokens(true, step, 1);
    ++seen[drawn];
    CHECK(tokens(true, step, 1) == drawn);
    seeds_differ = seeds_differ || tokens(true, step, 2) != drawn;
  }
  CHECK(seeds_differ);
  REQUIRE(seen.size() == 2);
  CHECK(seen.count(2) == 1);
  CHECK(seen[5] == Approx(150).margin(25));  // 4 standard deviations

  // Gradients reach the stored kernel and positions through the resize.
  Pass pass;
  pass.train = true;
  model->forward(two_images(32, 32), pass).sum().backward();
  for (const auto& [name, parameter] : named_parameters(*model)) {
    INFO(name);
    CHECK(parameter.grad().defined());
  }

  model->fix_largest_step();
  for (int64_t step = 0; step < 20; ++step)
    CHECK(tokens(true, step, /*seed=*/1) == 5);  // 8 and 16 are never drawn
  CHECK(tokens(false, 1, 0) == 4);
}

TEST_CASE("flexi_vit: pixels that fill no patch are named for each patch size") {
  const MetaDevice guard;
  const Config config =
      parse_config("{variant: mu/8, seqhw: 4,\n flexi: {seqhw: {v: [4, 5, 6, 8]}}}", "m.yaml");
  Model::Registry::make("flexi_vit", config, Place(), ModelEnv{10, 32, 32, 3});
  CHECK(warnings(config) ==
        std::vector<std::string>{
            "m.yaml:2:9: warning: flexi: images of 32x32 with patches of 6x6: the last 2 columns "
            "and 2 rows of pixels are not used",
            "m.yaml:2:9: warning: flexi: images of 32x32 with patches of 5x5: the last 2 columns "
            "and 2 rows of pixels are not used"});
}

TEST_CASE("flexi_vit: a warning says if the number of patches differs from seqhw") {
  const MetaDevice guard;
  const auto warned = [](const std::string& yaml, int64_t height, int64_t width) {
    const Config config = parse_config(yaml, "m.yaml");
    Model::Registry::make("flexi_vit", config, Place(), ModelEnv{10, height, width, 3});
    return warnings(config);
  };
  using Lines = std::vector<std::string>;
  CHECK(warned("{variant: mu/8, seqhw: 8}", 30, 30) ==
        Lines{"m.yaml:1:24: warning: seqhw: images of 30x30 are divided into 10x10 patches of 3x3, "
              "not 8 along each side; choose sides that are multiples of 8"});
  CHECK(warned("{variant: mu/8, seqhw: 4,\n flexi: {seqhw: {v: [0, 4, 8]}}}", 32, 36) ==
        Lines{"m.yaml:1:11: warning: variant: images of 32x36 with patches of 8x8: the last 4 "
              "columns of pixels are not used",
              "m.yaml:2:9: warning: flexi: images of 32x36 are divided into 8x9 patches of 4x4, "
              "not 8 along each side; choose sides that are multiples of 8"});
  CHECK(warned("{variant: mu/8, seqhw: 10}", 30, 30).empty());
}

TEST_CASE("flexi_vit: it takes images of at least one patch") {
  const auto takes = [](const std::string& yaml, int64_t height, int64_t width) {
    return make_model("flexi_vit", yaml, {10, 32, 32, 3})->takes_size(height, width);
  };
  CHECK(takes("{variant: mu/8}", 8, 40));
  CHECK_FALSE(takes("{variant: mu/8}", 7, 40));
  CHECK_FALSE(takes("{variant: mu/8}", 40, 7));
  CHECK(takes("{variant: mu/8, seqhw: 10}", 10, 19));
  CHECK_FALSE(takes("{variant: mu/8, seqhw: 10}", 9, 40));  // patches of 0 x 4 pixels
}

TEST_CASE("flexi_vit: bad keys are named with their place") {
  const auto error = [](const std::string& yaml) -> std::string {
    return error_of([&] { build_initialised("flexi_vit", yaml); });
  };
  CHECK(error("seqhw: 33") ==
        "m.yaml:1:8: error: seqhw: 33 tokens per side do not fit images of 32x32");
  CHECK(error("seqhw: 0") == "m.yaml:1:8: error: seqhw: must be positive, got 0");
  CHECK(error("posemb_size: [7]") ==
        "m.yaml:1:14: error: posemb_size: must be two positive numbers [rows, columns]");
  CHECK(error("variant: S/64") ==
        "m.yaml:1:10: error: variant: patches of 64x64 are larger than the images of 32x32");
  CHECK(error("{flexi: {seqhw: {v: [4, 8], p: [1]}}}") ==
        "m.yaml:1:32: error: flexi.seqhw.p: 1 weights for 2 values");
  CHECK(error("{flexi: {seqhw: {v: [4, 8], p: [0, -1]}}}") ==
        "m.yaml:1:32: error: flexi.seqhw.p: needs a weight above 0");
  CHECK(error("{flexi: {seqhw: {v: [4, 40]}}}") ==
        "m.yaml:1:9: error: flexi: 40 tokens per side do not fit images of 32x32");
  CHECK(error("rep_size: true").find("unknown key 'rep_size'") != std::string::npos);
}

}  // namespace
}  // namespace bv::test
