// What every registered model must do, at a small size.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "lib/config/load_config.h"
#include "lib/model/init.h"
#include "lib/model/model.h"
#include "test/models/parameter_count.h"

namespace bv::test {
namespace {

constexpr int64_t kClasses = 7, kSize = 32;

// Keys that make a model small. Models without an entry use their defaults.
Config small(const std::string& name) {
  if (name == "vit") return parse_config("{variant: mu/8, depth: 2, head_zeroinit: false}", name);
  if (name == "mlp_mixer") {
    return parse_config(
        "{patch_size: [8, 8], num_blocks: 2, hidden_dim: 16, tokens_mlp_dim: 12, channels_mlp_dim: "
        "24, stoch_depth: 0.5}",
        name);
  }
  if (name == "bit" || name == "bit_paper") {
    return parse_config("{width: 0.5, depth: [2, 1]}", name);
  }
  if (name == "flexi_vit" || name == "proj.flexi.vit") {
    return parse_config("{variant: mu, patch_size: [8, 8], posemb_size: [3, 3], seqhw: 5}", name);
  }
  if (name == "resnet_cifar") return parse_config("{width: 16}", name);
  return Config();
}

std::unique_ptr<Model> build_small(const std::string& name, int64_t channels = 3) {
  return Model::Registry::make(name, small(name), Place(),
                               ModelEnv{kClasses, kSize, kSize, channels});
}

// Initialises the parameters. Kernels and scales that start at zero (heads, the last norm of a
// residual unit) get other values, because nothing before them would reach the output.
void start(Model& model, uint64_t seed) {
  init_parameters(model, seed, std::nullopt);
  for (auto& [path, parameter] : named_parameters(model)) {
    const bool blocks = path.ends_with("/kernel") || path.ends_with("/scale");
    if (!blocks || parameter.is_meta() || parameter.any().item<bool>()) continue;
    at::Tensor values = parameter.detach();
    path.ends_with("/scale") ? ones()(values, seed) : lecun_normal(parameter.size(0))(values, seed);
  }
}

at::Tensor four_images(int64_t channels = 3) {
  return at::randn({4, kSize, kSize, channels}, at::detail::createCPUGenerator(1), at::kFloat);
}

TEST_CASE("the registered models") {
  CHECK(Model::Registry::names() == std::vector<std::string>{"bit", "bit_paper", "cnn", "flexi_vit",
                                                             "mlp_mixer", "proj.flexi.vit",
                                                             "resnet_cifar", "tiny",
                                                             "vit"});  // the example in the README
}

TEST_CASE("each model gives logits and sends a gradient to every parameter") {
  for (const std::string& name : Model::Registry::names()) {
    for (const Precision precision : {Precision::float32, Precision::bf16}) {
      INFO(name << (precision == Precision::bf16 ? " bf16" : " float32"));
      const auto model = build_small(name);
      start(*model, 1);
      Features features;
      Pass pass;
      pass.train = true;
      pass.precision = precision;
      pass.features = &features;
      const at::Tensor logits = model->forward(four_images(), pass);
      CHECK(logits.sizes() == at::IntArrayRef({4, kClasses}));
      CHECK(logits.scalar_type() == at::kFloat);
      CHECK(logits.isfinite().all().item<bool>());
      CHECK(features.at("logits").equal(logits));
      CHECK(features.at("pre_logits").scalar_type() == at::kFloat);
      (logits * at::arange(4 * kClasses).view({4, kClasses})).sum().backward();
      for (const auto& [path, parameter] : named_parameters(*model)) {
        INFO(path);
        REQUIRE(parameter.grad().defined());
        CHECK(parameter.grad().scalar_type() == at::kFloat);
        CHECK(parameter.grad().isfinite().all().item<bool>());
        // The gradient of a bias that adds a constant to all keys of a softmax is rounding noise.
        if (!path.ends_with("key/bias")) CHECK(parameter.grad().abs().max().item<double>() > 0);
      }
    }
  }
}

// The help text of the key `precision` says so.
TEST_CASE("in bf16 residual streams are float32, but not in resnet_cifar") {
  const std::map<std::string, std::pair<std::string, at::ScalarType>> kept = {
      {"vit", {"encoder/block00/+mlp", at::kFloat}},
      {"flexi_vit", {"encoder/block00/+mlp", at::kFloat}},
      {"mlp_mixer", {"block_0", at::kFloat}},
      {"bit", {"stage1", at::kFloat}},
      {"bit_paper", {"stage1/unit01", at::kFloat}},
      {"resnet_cifar", {"stage1", at::kBFloat16}},
      {"cnn", {"conv_0", at::kBFloat16}}};
  for (const auto& [name, expected] : kept) {
    INFO(name);
    const auto model = build_small(name);
    start(*model, 1);
    Features features;
    Pass pass;
    pass.precision = Precision::bf16;
    pass.features = &features;
    model->forward(four_images(), pass);
    CHECK(features.at(expected.first).scalar_type() == expected.second);
    for (const auto& [path, parameter] : named_parameters(*model)) {
      INFO(path);
      CHECK(parameter.scalar_type() == at::kFloat);
    }
  }
}

TEST_CASE(
    "models whose weights are tied to positions in the image take no other grid of positions") {
  const std::set<std::string> fixed = {"cnn", "mlp_mixer", "tiny", "vit"};
  for (const std::string& name : Model::Registry::names()) {
    INFO(name);
    const auto model = build_small(name);
    init_parameters(*model, 1, std::nullopt);
    CHECK(model->takes_size(kSize, kSize));
    for (const auto& [height, width] : {std::pair(kSize / 2, 2 * kSize), {2 * kSize, kSize / 2}}) {
      CHECK(model->takes_size(height, width) == !fixed.contains(name));
      // forward() itself does not detect it.
      Pass pass;
      const at::Tensor logits = model->forward(at::zeros({1, height, width, 3}), pass);
      CHECK(logits.sizes() == at::IntArrayRef({1, kClasses}));
    }
  }
  // Pixels outside the whole patches or pools do not count; a mixer pads its images.
  for (const std::string name : {"cnn", "vit"}) {
    CHECK(build_small(name)->takes_size(kSize + 3, kSize + 2));
    CHECK_FALSE(build_small(name)->takes_size(kSize - 1, kSize));
  }
  CHECK(build_small("mlp_mixer")->takes_size(kSize - 1, kSize - 7));
  CHECK_FALSE(build_small("mlp_mixer")->takes_size(kSize + 1, kSize));
}

TEST_CASE("each model starts the same from the same seed, and passes repeat with the same bits") {
  for (const std::string& name : Model::Registry::names()) {
    INFO(name);
    const auto run = [&](uint64_t seed) {
      const auto model = build_small(name);
      start(*model, seed);
      Pass pass;
      pass.train = true;
      pass.precision = Precision::bf16;
      const at::Tensor logits = model->forward(four_images(), pass);
      logits.square().sum().backward();
      std::vector<at::Tensor> all = {logits.detach()};
      for (const auto& [path, parameter] : named_parameters(*model))
        all.push_back(parameter.grad());
      for (const auto& [path, buffer] : named_buffers(*model)) all.push_back(buffer);
      return all;
    };
    const auto first = run(1), second = run(1), other = run(2);
    REQUIRE(first.size() == second.size());
    for (size_t i = 0; i < first.size(); ++i) CHECK(first[i].equal(second[i]));
    CHECK_FALSE(first[0].equal(other[0]));
  }
}

TEST_CASE("each model takes one channel, and without classes returns pre_logits") {
  for (const std::string& name : Model::Registry::names()) {
    INFO(name);
    const auto model =
        Model::Registry::make(name, small(name), Place(), ModelEnv{0, kSize, kSize, 1});
    init_parameters(*model, 1, std::nullopt);
    for (const auto& [path, parameter] : named_parameters(*model)) {
      CHECK_FALSE(path.starts_with("head/"));
    }
    const c10::InferenceMode inference;
    Features features;
    Pass pass;
    pass.features = &features;
    CHECK(model->forward(four_images(1), pass).equal(features.at("pre_logits")));
    CHECK(features.count("logits") == 0);
  }
}

TEST_CASE("each model can be built and run on the meta device, which allocates nothing") {
  for (const std::string& name : Model::Registry::names()) {
    for (const Precision precision : {Precision::float32, Precision::bf16}) {
      INFO(name);
      const auto real = build_small(name);
      const MetaDevice guard;
      const auto model = build_small(name);
      init_parameters(*model, 1, std::nullopt);
      CHECK(parameter_count(*model) == parameter_count(*real));
      for (const auto& [path, parameter] : named_parameters(*model)) CHECK(parameter.is_meta());
      for (const auto& [path, buffer] : named_buffers(*model)) CHECK(buffer.is_meta());
      double macs = 0, real_macs = 0;
      Pass pass, real_pass;
      pass.train = real_pass.train = true;
      pass.precision = real_pass.precision = precision;
      pass.macs = &macs;
      real_pass.macs = &real_macs;
      const at::Tensor logits = model->forward(at::empty({4, kSize, kSize, 3}, at::kMeta), pass);
      CHECK(logits.sizes() == at::IntArrayRef({4, kClasses}));
      real->forward(four_images(), real_pass);
      CHECK(macs > 0);
      CHECK(macs == real_macs);
    }
  }
}

TEST_CASE("each model trained in bf16 stays near float32") {
  for (const std::string& name : Model::Registry::names()) {
    INFO(name);
    const auto logits = [&](Precision precision) {
      const auto model = build_small(name);
      start(*model, 1);
      Pass pass;
      pass.train = true;
      pass.precision = precision;
      return model->forward(four_images(), pass).detach();
    };
    const at::Tensor exact = logits(Precision::float32), rough = logits(Precision::bf16);
    const double scale = exact.abs().max().item<double>();
    CHECK((rough - exact).abs().max().item<double>() < 0.05 * scale);
    CHECK_FALSE(rough.equal(exact));
  }
}

}  // namespace
}  // namespace bv::test
