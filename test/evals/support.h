// Helpers for evaluator tests: synthetic data, evaluators from YAML, and a model that returns its
// inputs.
#pragma once

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lib/ckpt/formats/npz.h"
#include "lib/config/load_config.h"
#include "lib/evals/evaluator.h"
#include "test/support/config.h"
#include "test/support/error.h"
#include "test/support/folder.h"

namespace bv::test {

inline at::Tensor noise(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::kFloat);
}

// Returns n examples: image (n, 2, 2, 3) float32, label (n), labels (n, 5) one-hot, teacher (n, 5).
inline NamedTensors examples(int64_t n, uint64_t seed = 1) {
  NamedTensors data;
  data["image"] = noise({n, 2, 2, 3}, seed);
  data["label"] = at::arange(n, at::kLong).mul(7).remainder(5);
  data["labels"] = at::one_hot(data["label"], 5).to(at::kFloat);
  data["image"].flatten(1).slice(1, 0, 5).add_(data["labels"]);  // makes labels predictable
  data["teacher"] = noise({n, 5}, seed + 1);
  return data;
}

// Writes logits and labels as a data set, and returns its file. It needs images, which are zero.
inline std::string store_logits(const TempFolder& folder, const at::Tensor& logits,
                                const at::Tensor& labels, const std::string& name = "d.npz") {
  write_npz(
      folder / name,
      {{"image", at::zeros({logits.size(0), 2, 2, 3})}, {"logits", logits}, {"labels", labels}});
  return folder / name;
}

// Returns the config of an evaluator with the data set `file`. `more` are more keys.
inline std::string npz_config(const std::string& file, const std::string& more) {
  return fmt::format("{{data: {{name: npz, fname: '{}'}}, {}}}", file, more);
}

struct Measured {
  std::vector<std::pair<std::string, double>> values;
  std::vector<EvalDetails> details;
  int64_t rows = 0;  // predicted examples, without padding
  double at(const std::string& name) const {
    for (const auto& [each, value] : values) {
      if (each == name) return value;
    }
    FAIL("no metric " << name);
    return 0;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, value] : values) all.push_back(name);
    return all;
  }
};

// The model's outputs. logits are the batch's "logits" or, if it has none, the first five numbers
// of the image; pre_logits are all its twelve numbers. Every value depends on one example only, so
// the results are bit-identical in any batch.
inline Outputs fake_outputs(const Batch& batch, const std::vector<std::string>& activations) {
  const at::Tensor flat = batch.at("image").flatten(1);
  Outputs outputs;
  outputs["logits"] = batch.contains("logits") ? batch.at("logits") : flat.slice(1, 0, 5);
  for (const std::string& layer : activations) {
    if (layer == "pre_logits") outputs[layer] = flat;
    if (layer == "tokens") outputs[layer] = batch.at("image").flatten(1, 2);  // (n, 4, 3)
  }
  return outputs;
}

inline std::unique_ptr<Evaluator> make_evaluator(const std::string& type, const std::string& yaml) {
  EvalEnv env;
  env.name = "e";
  env.batch_size = 16;
  env.threads = 2;
  return from_yaml(
      yaml, [&](const Config& config) { return Evaluator::Registry::make(type, config, {}, env); });
}

inline Measured measure(Evaluator& evaluator, const std::string& workdir = "", int64_t step = 3,
                        const std::function<void()>& check_folder = {}) {
  Measured measured;
  EvalContext context;
  context.step = step;
  context.workdir = workdir;
  context.check_folder = check_folder;
  context.report = true;
  context.details = [&](EvalDetails details) { measured.details.push_back(std::move(details)); };
  context.predict = [&](const Batch& batch, const std::vector<std::string>& activations) {
    measured.rows += batch.at("_mask").sum().item<int64_t>();
    return fake_outputs(batch, activations);
  };
  evaluator.run(context, [&](std::string_view name, double value) {
    measured.values.emplace_back(name, value);
  });
  return measured;
}

inline Measured measure(const std::string& type, const std::string& yaml) {
  return measure(*make_evaluator(type, yaml));
}

// Returns the message of the Error that an evaluator's config, probe or run throws, "" if there is
// none.
inline std::string refusal(const std::string& type, const std::string& yaml,
                           Exit code = Exit::usage) {
  return error_of(
      [&] {
        const auto evaluator = make_evaluator(type, yaml);
        evaluator->probe(1);
        measure(*evaluator);
      },
      code);
}

}  // namespace bv::test
