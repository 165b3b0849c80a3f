// Compares a model that has stored parameters with what the reference's code computed from stored
// images. The cases are listed in golden/models/models.json.
#pragma once

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "lib/ckpt/formats/npz.h"
#include "lib/config/load_config.h"
#include "lib/model/loss.h"
#include "lib/model/model.h"
#include "test/support/compare.h"
#include "test/support/golden.h"

namespace bv::test {

struct GoldenCase {
  std::unique_ptr<Model> model;
  nlohmann::json about;
  NamedTensors io;
};

inline GoldenCase load_golden_case(const std::string& name) {
  GoldenCase made;
  std::ifstream file(golden_file("models/models.json"));
  made.about = nlohmann::json::parse(file).at(name);
  made.io = read_npz(golden_file("models/" + name + ".io.npz"));
  const Config config = parse_config(made.about.at("model").dump(), name);
  const auto image = made.about.at("image").get<std::vector<int64_t>>();
  made.model =
      Model::Registry::make(made.about.at("model_name"), config, Place(),
                            ModelEnv{made.about.at("num_classes"), image[1], image[2], image[3]});

  NamedTensors weights = read_npz(golden_file("models/" + name + ".ckpt.npz"), "params/");
  int64_t count = 0;
  for (auto& [path, parameter] : named_parameters(*made.model)) {
    INFO(path);
    REQUIRE(weights.count(path) == 1);
    REQUIRE(weights.at(path).sizes() == parameter.sizes());
    parameter.detach().copy_(weights.at(path));
    weights.erase(path);
    count += parameter.numel();
  }
  CHECK(weights.empty());
  CHECK(count == made.about.at("num_params").get<int64_t>());
  return made;
}

inline void check_output(const at::Tensor& ours, const at::Tensor& golden) {
  CHECK(worst(ours, golden) / golden.abs().max().item<double>() <= 2e-5);
}

// Checks logits, pre_logits, activations, loss and all gradients, within the tolerances that the
// README beside the files gives.
inline void check_golden_case(const std::string& name) {
  if (golden_file("models/" + name + ".io.npz").empty()) return;
  INFO(name);
  const GoldenCase loaded = load_golden_case(name);
  Features features;
  Pass pass;
  pass.train = true;
  pass.features = &features;
  const at::Tensor logits = loaded.model->forward(loaded.io.at("image"), pass);
  check_output(logits, loaded.io.at("logits"));
  check_output(features.at("pre_logits"), loaded.io.at("pre_logits"));
  double gradients = 0;
  for (const auto& [path, golden] : loaded.io) {
    INFO(path);
    if (path.starts_with("out/")) {
      REQUIRE(features.count(path.substr(4)) == 1);
      check_output(features.at(path.substr(4)), golden);
    } else if (path.starts_with("grad/")) {
      gradients += golden.to(at::kDouble).square().sum().item<double>();
    }
  }

  const auto loss = Loss::Registry::make(loaded.about.at("loss"), Config(), Place());
  const at::Tensor mean = (*loss)(logits, loaded.io.at("labels")).mean();
  CHECK(worst(mean, loaded.io.at("loss")) / loaded.io.at("loss").item<double>() <= 3e-6);
  mean.backward();
  for (const auto& [path, parameter] : named_parameters(*loaded.model)) {
    INFO(path);
    REQUIRE(parameter.grad().defined());
    CHECK(worst(parameter.grad(), loaded.io.at("grad/" + path)) / std::sqrt(gradients) <= 3e-6);
  }
}

}  // namespace bv::test
