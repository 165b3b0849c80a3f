// Small models of every kind, with weights that tests of exports can tell apart.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lib/config/load_config.h"
#include "lib/export/trained_model.h"
#include "lib/model/init.h"
#include "lib/model/model.h"

namespace bv::test {

// Returns the keys of a small model of this kind.
inline std::string small(const std::string& name) {
  if (name == "vit") return "{variant: mu/8, depth: 2}";
  if (name == "bit" || name == "bit_paper") return "{width: 0.5, depth: [2, 1]}";
  if (name == "resnet_cifar") return "{width: 16}";
  if (name == "cnn") return "{widths: [8, 16], dense: 20}";
  if (name == "mlp_mixer") {
    return "{patch_size: [8, 8], num_blocks: 2, hidden_dim: 16, tokens_mlp_dim: 12, "
           "channels_mlp_dim: 24}";
  }
  if (name == "flexi_vit" || name == "proj.flexi.vit")
    return "{variant: mu, patch_size: [8, 8], posemb_size: [3, 3], seqhw: 3}";
  FAIL("no size of a small '" << name << "'");
  return "";
}

// Returns a model of 7 classes. `seed` decides its weights.
inline std::unique_ptr<Model> build(const std::string& name, const std::string& yaml,
                                    ImageSize image, uint64_t seed = 1) {
  auto model = Model::Registry::make(name, parse_config(yaml, "m"), Place(),
                                     ModelEnv{7, image.height, image.width, image.channels});
  init_parameters(*model, seed, std::nullopt);
  for (auto& [path, parameter] : named_parameters(*model)) {  // zeros and ones could hide errors
    at::Tensor values = parameter.detach();
    values += 0.1 * at::randn(values.sizes(), at::detail::createCPUGenerator(values.numel() + seed),
                              at::kFloat);
  }
  return model;
}

// Returns a model of 7 classes as an export takes it, without a description of its training.
inline TrainedModel trained(const std::string& name, const std::string& yaml,
                            ImageSize image = {32, 32, 3}) {
  const auto model = build(name, yaml, image);
  TrainedModel made;
  made.config = parse_config(
      fmt::format("{{model_name: {}, model: {}, num_classes: 7}}", name, yaml), "t.yaml");
  made.image = image;
  made.origin = "t";
  for (const auto& [path, value] : named_parameters(*model)) made.params[path] = value.detach();
  for (const auto& [path, value] : named_buffers(*model)) made.buffers[path] = value;
  return made;
}

// Like trained(), with the description that a config needs to start from the exported file.
inline TrainedModel described(const std::string& name, const std::string& yaml,
                              ImageSize image = {32, 32, 3}) {
  TrainedModel made = trained(name, yaml, image);
  made.card.model_name = name;
  made.card.model = made.config.section("model").json();
  made.card.num_classes = 7;
  made.card.loss = "softmax_xent";
  return made;
}

}  // namespace bv::test
