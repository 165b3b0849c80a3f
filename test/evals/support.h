// What the tests of this room share: data in npz files, evaluators from YAML, a model that gives
// back what the data holds.
#pragma once

#include <ATen/ATen.h>
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "lib/ckpt/npz.h"
#include "lib/evals/evaluator.h"

namespace bv {

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "bvtrain-evals-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline at::Tensor noise(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::kFloat);
}

// n examples: image (n, 2, 2, 3) float32, label, labels (n, 5) one-hot, teacher (n, 5).
inline NamedTensors examples(int64_t n, uint64_t seed = 1) {
  NamedTensors data;
  data["image"] = noise({n, 2, 2, 3}, seed);
  data["label"] = at::arange(n, at::kLong).mul(7).remainder(5);
  data["labels"] = at::one_hot(data["label"], 5).to(at::kFloat);
  data["image"].flatten(1).slice(1, 0, 5).add_(data["labels"]);  // something to find
  data["teacher"] = noise({n, 5}, seed + 1);
  return data;
}

struct Measured {
  std::vector<std::pair<std::string, double>> values;
  std::vector<EvalDetails> details;
  int64_t rows = 0;  // that were predicted, padding not counted
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

// logits: the batch's "logits" where it has them, else the first five numbers of the image;
// pre_logits: all twelve. Elementwise, so that the bits do not depend on the batch.
inline Outputs fake_outputs(const Batch& batch, const std::vector<std::string>& layers) {
  const at::Tensor flat = batch.at("image").flatten(1);
  Outputs outputs;
  outputs["logits"] = batch.contains("logits") ? batch.at("logits") : flat.slice(1, 0, 5);
  for (const std::string& layer : layers) {
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
  const Config config = parse_config(yaml, "t.yaml");
  auto evaluator = Evaluator::Registry::make(type, config, {}, env);
  throw_problems(config);
  return evaluator;
}

inline Measured measure(Evaluator& evaluator, const std::string& workdir = "", int64_t step = 3) {
  Measured measured;
  EvalContext context;
  context.step = step;
  context.workdir = workdir;
  context.details = [&](EvalDetails details) { measured.details.push_back(std::move(details)); };
  context.predict = [&](const Batch& batch, const std::vector<std::string>& layers) {
    measured.rows += batch.at("_mask").sum().item<int64_t>();
    return fake_outputs(batch, layers);
  };
  evaluator.run(context, [&](std::string_view name, double value) {
    measured.values.emplace_back(name, value);
  });
  return measured;
}

inline Measured measure(const std::string& type, const std::string& yaml) {
  return measure(*make_evaluator(type, yaml));
}

// The line of the bv::Error (of the config, or of a run).
inline std::string refusal(const std::string& type, const std::string& yaml) {
  try {
    const auto evaluator = make_evaluator(type, yaml);
    evaluator->probe(1);
    measure(*evaluator);
  } catch (const Error& error) {
    CHECK(error.code() == Exit::usage);
    return error.what();
  }
  return "";
}

}  // namespace bv
