// cnn and resnet_cifar: names, sizes, keys, and the formula of cnn.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "lib/config/load_config.h"
#include "lib/model/model.h"
#include "test/models/parameter_count.h"
#include "test/support/error.h"
#include "test/support/model.h"

namespace bv::test {
namespace {

std::map<std::string, at::Tensor> parameter_map(const Model& model) {
  const auto all = named_parameters(model);
  return {all.begin(), all.end()};
}

std::string error(const std::string& name, const std::string& yaml,
                  ModelEnv env = {10, 32, 32, 3}) {
  return error_of([&] { make_model(name, yaml, env); });
}

TEST_CASE("cnn is the notebook's network") {
  const auto model = make_model("cnn", "{}", {10, 28, 28, 1});
  init_parameters(*model, 1, std::nullopt);
  std::string shapes;
  for (const auto& [name, parameter] : named_parameters(*model)) {
    shapes += fmt::format("{} {}\n", name, fmt::join(parameter.sizes(), "x"));
  }
  CHECK(shapes ==
        "Conv_0/kernel 3x3x1x32\nConv_0/bias 32\nConv_1/kernel 3x3x32x64\nConv_1/bias 64\n"
        "Dense_0/kernel 3136x256\nDense_0/bias 256\nhead/kernel 256x10\nhead/bias 10\n");

  // The same formula in LibTorch's plain operations on plain layouts.
  auto p = parameter_map(*model);
  for (auto& [name, parameter] : p) {
    if (name.ends_with("bias"))
      parameter.detach().copy_(at::linspace(-0.1, 0.1, parameter.numel()));
  }
  const at::Tensor image = at::linspace(-1, 1, 3 * 28 * 28).view({3, 28, 28, 1}).sin();
  at::Tensor x = image.permute({0, 3, 1, 2}).contiguous();
  for (const std::string conv : {"Conv_0", "Conv_1"}) {
    const at::Tensor weight = p.at(conv + "/kernel").permute({3, 2, 0, 1}).contiguous();
    x = at::avg_pool2d(at::relu(at::conv2d(x, weight, p.at(conv + "/bias"), 1, 1)), 2);
  }
  x = x.permute({0, 2, 3, 1}).reshape({3, -1});
  x = at::relu(x.matmul(p.at("Dense_0/kernel")) + p.at("Dense_0/bias"));
  x = x.matmul(p.at("head/kernel")) + p.at("head/bias");
  Pass pass;
  double macs = 0;
  pass.macs = &macs;
  CHECK(at::allclose(model->forward(image, pass), x, 1e-5, 1e-5));
  CHECK(macs == 3.0 * (28 * 28 * 9 * 32 + 14 * 14 * 9 * 32 * 64 + 3136 * 256 + 256 * 10));
}

TEST_CASE("cnn: widths, dense and dropout are keys") {
  const auto model =
      make_model("cnn", "{widths: [16, 8, 24], dense: 12, dropout: 0.5}", {5, 17, 9, 3});
  auto p = parameter_map(*model);
  CHECK(p.at("Conv_2/kernel").sizes() == at::IntArrayRef({3, 3, 8, 24}));
  CHECK(p.at("Dense_0/kernel").sizes() == at::IntArrayRef({2 * 1 * 24, 12}));
  init_parameters(*model, 1, std::nullopt);
  Pass pass;
  pass.train = true;
  model->forward(at::zeros({2, 17, 9, 3}), pass);
  CHECK(pass.next_dropout == 1);
  CHECK(error("cnn", "widths: [8, 8, 8, 8, 8, 8]") ==
        "m.yaml:1:9: error: widths: 6 average pools of 2 leave nothing of images of 32x32");
  CHECK(error("cnn", "widths: [8, 0]") == "m.yaml:1:9: error: widths: must be positive");
  CHECK(error("cnn", "dense: 0") == "m.yaml:1:8: error: dense: must be positive");
  CHECK(error("cnn", "dropout: 1.5") == "m.yaml:1:10: error: dropout: must be in [0, 1)");
}

TEST_CASE("resnet_cifar: a width that has no effect gives a warning") {
  const auto warned = [](const std::string& yaml) {
    const Config config = parse_config(yaml, "t.yaml");
    Model::Registry::make("resnet_cifar", config, Place(), {10, 32, 32, 3});
    return warnings(config);
  };
  CHECK(warned("{width: 16, whitening: 8, widths: [16, 16, 16]}") ==
        std::vector<std::string>{"t.yaml:1:9: warning: width: has no effect, because `whitening` "
                                 "and `widths` are given"});
  CHECK(warned("{width: 64, whitening: 8, widths: [16, 16, 16]}").empty());  // the default
  CHECK(warned("{width: 16, whitening: 8}").empty());
  CHECK(warned("{width: 16, widths: [16, 16, 16]}").empty());
}

TEST_CASE("resnet_cifar: nine layers, 6.5 million parameters, running statistics") {
  const auto model = make_model("resnet_cifar", "{}", {10, 32, 32, 3});
  CHECK(parameter_count(*model) == 6573130);
  CHECK(named_buffers(*model).size() == 16);
  CHECK(named_parameters(*model).back().first == "head/bias");
  CHECK(parameter_count(*make_model("resnet_cifar", "norm: group", {10, 32, 32, 3})) == 6573130);
  CHECK(named_buffers(*make_model("resnet_cifar", "norm: group", {10, 32, 32, 3})).empty());
  auto p =
      parameter_map(*make_model("resnet_cifar", "{width: 16, blocks: [0, 2]}", {10, 32, 32, 3}));
  CHECK(p.at("stage2/block2/conv2/kernel").sizes() == at::IntArrayRef({3, 3, 64, 64}));
  CHECK(p.at("head/kernel").sizes() == at::IntArrayRef({64, 10}));
  CHECK(error("resnet_cifar", "blocks: [0, 0, 0, 0, 0, 0]") ==
        "m.yaml:1:9: error: blocks: 6 stages halve images of 32x32 to nothing");
  std::string zeros = "0";
  for (int i = 1; i < 64; ++i) zeros += ", 0";
  CHECK(error("resnet_cifar", "blocks: [" + zeros + "]") ==
        "m.yaml:1:9: error: blocks: 64 stages halve images of 32x32 to nothing");
  CHECK(error("resnet_cifar", "blocks: [1, -1]") ==
        "m.yaml:1:9: error: blocks: must not be negative");
  CHECK(error("resnet_cifar", "{norm: group, width: 24}") ==
        "m.yaml:1:22: error: width: norm: group needs a multiple of 16, got 24");
  CHECK(error("resnet_cifar", "width: 0") == "m.yaml:1:8: error: width: must be positive, got 0");
}

TEST_CASE("resnet_cifar: widths, a second convolution and a whitening layer") {
  const std::string yaml =
      "{whitening: 3, widths: [16, 32, 32], stage_convs: 2, blocks: [0, 0, 1], identity_init: "
      "true}";
  const auto model = make_model("resnet_cifar", yaml, {10, 32, 32, 3});
  init_parameters(*model, 1, std::nullopt);
  auto p = parameter_map(*model);
  CHECK(p.at("prep/bias").sizes() == at::IntArrayRef({24}));
  CHECK_FALSE(p.contains("prep/conv/kernel"));
  CHECK(p.at("stage1/conv/kernel").sizes() == at::IntArrayRef({3, 3, 24, 16}));
  CHECK(p.at("stage2/conv2/kernel").sizes() == at::IntArrayRef({3, 3, 32, 32}));
  CHECK(p.at("stage3/block1/conv1/kernel").sizes() == at::IntArrayRef({3, 3, 32, 32}));
  CHECK(p.at("stage1/conv/kernel").select(0, 1).select(0, 1).narrow(0, 0, 16).equal(at::eye(16)));

  // Before fit() the first layer gives the pixels of each patch and their negatives.
  const at::Tensor image = at::randn({2, 32, 32, 3}, at::detail::createCPUGenerator(1), at::kFloat);
  Features features;
  Pass pass;
  pass.features = &features;
  const c10::InferenceMode inference;
  model->forward(image, pass);
  const at::Tensor pixels = image.permute({0, 3, 1, 2});
  CHECK(features.at("prep").sizes() == at::IntArrayRef({2, 24, 32, 32}));
  CHECK(features.at("prep").narrow(1, 0, 3).equal(at::relu(pixels)));
  CHECK(features.at("prep").narrow(1, 12, 3).equal(at::relu(-pixels)));
  CHECK(features.at("stage3").sizes() == at::IntArrayRef({2, 32, 4, 4}));

  CHECK(model->fit_images() == 3);
  int given = 0;
  model->fit([&] { return given < 2 ? image[given++] : at::Tensor(); });
  model->forward(image, pass);
  const at::Tensor y = features.at("prep").narrow(1, 0, 12) - features.at("prep").narrow(1, 12, 12);
  // The patches of the last row and column are not complete.
  const at::Tensor whole = y.narrow(2, 0, 31).narrow(3, 0, 31).transpose(0, 1).flatten(1);
  CHECK(at::allclose(whole.matmul(whole.t()) / whole.size(1), at::eye(12), 0, 2e-3));

  CHECK(error("resnet_cifar", "widths: [16, 32]") ==
        "m.yaml:1:9: error: widths: has 2 numbers, but `blocks` has 3: one for each stage");
  CHECK(error("resnet_cifar", "{norm: group, widths: [16, 20, 32]}") ==
        "m.yaml:1:23: error: widths: norm: group needs a multiple of 16, got 20");
  CHECK(error("resnet_cifar", "logit_scale: 0") ==
        "m.yaml:1:14: error: logit_scale: must not be 0: all gradients would be 0");
  CHECK(error("resnet_cifar", "stage_convs: 3") ==
        "m.yaml:1:14: error: stage_convs: must be 1 or 2, got 3");
  CHECK(error("resnet_cifar", "whitening: -1") ==
        "m.yaml:1:12: error: whitening: must not be negative, got -1");
}

TEST_CASE("resnet_cifar: training moves the running statistics, evaluation uses them") {
  const auto model = make_model("resnet_cifar", "width: 16", {10, 16, 16, 3});
  init_parameters(*model, 1, std::nullopt);
  const at::Tensor image =
      at::randn({32, 16, 16, 3}, at::detail::createCPUGenerator(1), at::kFloat);
  const c10::InferenceMode inference;
  Pass train, evaluation;
  train.train = true;
  const at::Tensor batch = model->forward(image, train);
  const at::Tensor before = model->forward(image, evaluation);
  for (const auto& [name, buffer] : named_buffers(*model)) {
    INFO(name);
    if (name.ends_with("mean")) CHECK(buffer.abs().max().item<double>() > 0);
  }
  for (int i = 0; i < 100; ++i) model->forward(image, train);
  // The running variance is the unbiased estimate. The smallest layer has 2x2 pixels of 32 images.
  CHECK(at::allclose(model->forward(image, evaluation), batch, 0.05, 0.02));
  CHECK_FALSE(at::allclose(before, batch, 0.05, 0.02));
  CHECK(model->forward(image, evaluation).equal(model->forward(image, evaluation)));
}

// If they were, the graphs of all steps would stay in memory.
TEST_CASE("resnet_cifar: running statistics are not part of the graph of a step") {
  const auto model = make_model("resnet_cifar", "width: 16", {10, 16, 16, 3});
  init_parameters(*model, 1, std::nullopt);
  Pass train;
  train.train = true;
  const at::Tensor image = at::randn({4, 16, 16, 3}, at::detail::createCPUGenerator(1), at::kFloat);
  REQUIRE(model->forward(image, train).requires_grad());
  for (const auto& [name, buffer] : named_buffers(*model)) {
    INFO(name);
    CHECK_FALSE(buffer.requires_grad());
  }
}

TEST_CASE("resnet_cifar: logit_scale multiplies the logits") {
  const at::Tensor image = at::randn({2, 8, 8, 3}, at::detail::createCPUGenerator(1), at::kFloat);
  const auto logits = [&](const std::string& yaml) {
    const auto model = make_model("resnet_cifar", yaml, {10, 8, 8, 3});
    init_parameters(*model, 1, std::nullopt);
    Pass pass;
    return model->forward(image, pass).detach();
  };
  CHECK(at::allclose(logits("{width: 16, norm: group}"),
                     0.125 * logits("{width: 16, norm: group, logit_scale: 1}")));
}

}  // namespace
}  // namespace bv::test
