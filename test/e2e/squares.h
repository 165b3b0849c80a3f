// Small data sets of bright squares with several classes and numbers to an image, and configs that
// train the real binary on them.
#pragma once

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "lib/ckpt/formats/npz.h"
#include "lib/util/file.h"
#include "lib/util/text.h"
#include "test/support/binary.h"
#include "test/support/folder.h"
#include "test/support/text.h"

namespace bv::test {

// Bright squares in a dark image: `labels` (n, 3) marks which of three columns contain one, and
// `label_sizes` (n, 2) is a linear function of their brightness.
inline void write_squares(const std::string& file, int64_t n, uint64_t seed) {
  const auto generator = at::detail::createCPUGenerator(seed);
  const at::Tensor labels = at::rand({n, 3}, generator).gt(0.5).to(at::kFloat);
  const at::Tensor bright = at::rand({n, 3}, generator) * 127 + 128;
  at::Tensor image = at::rand({n, 6, 6, 1}, generator) * 40;
  for (int64_t c = 0; c < 3; ++c) {
    const at::Tensor square = (labels.select(1, c) * bright.select(1, c)).view({n, 1, 1, 1});
    image.narrow(1, 1, 4).narrow(2, 2 * c, 2).add_(square);
  }
  const at::Tensor light = labels * bright;
  const at::Tensor sizes =
      at::stack({light.sum(1) * 3 + 5000, light.select(1, 0) * -0.001 + 0.2}, 1);
  write_npz(file, {{"image", image.clamp_max(255).to(at::kByte)},
                   {"labels", labels},
                   {"label_sizes", sizes},
                   {"label", labels.select(1, 0).to(at::kLong)}});
}

// The keys that all configs below lack.
inline constexpr const char* kSquaresKeys = R"(
log_training_epochs: 1
ckpt_epochs: 100
compute_threads: 1
precision: float32
model_name: cnn
model: {widths: [8], dense: 16}
optax_name: scale_by_adam
lr: 0.01
)";

// The two data sets, and a config for them.
struct Squares {
  TempFolder dir;
  std::string config = dir / "c.yaml";
  Squares() {
    write_squares(dir / "train.npz", 256, 1);
    write_squares(dir / "test.npz", 60, 2);
  }
  // TRAIN and TEST in `text` stand for the two data sets.
  void write_config(std::string text) const {
    for (const std::string name : {"TRAIN", "TEST"}) {
      const std::string file = dir / (name == "TRAIN" ? "train.npz" : "test.npz");
      text = replace_all(std::move(text), name, "{name: npz, fname: '" + file + "'}");
    }
    write(config, kSquaresKeys + text);
  }
  Finished train(const std::string& workdir, int ranks = 1) const {
    Finished finished = run({"--config", config, "--workdir", dir / workdir, "--devices",
                             "cpu:" + std::to_string(ranks)});
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    return finished;
  }
  std::vector<nlohmann::json> predict(const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"predict", "--input", dir / "test.npz", "--output",
                                     dir / "p.jsonl"};
    args.insert(args.end(), more.begin(), more.end());
    const Finished finished = run(args);
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    std::vector<nlohmann::json> lines;
    for (const std::string& line : split(read_file(dir / "p.jsonl"), '\n'))
      if (!line.empty()) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
};

// Several classes to an image.
inline constexpr const char* kSeveralClasses = R"(
total_epochs: 40
num_classes: 3
task_kw: {multilabel: true}
loss: sigmoid_xent
input: {data: TRAIN, batch_size: 32, pp: 'value_range(-1, 1)|keep("image", "labels")'}
evals:
  test: {type: class_metrics, data: TEST, pp_fn: 'value_range(-1, 1)|keep("image", "labels")',
         metrics: [f1_macro, map, auroc_per_class], log_epochs: 20, batch_size: 16}
)";

// Two numbers to an image.
inline constexpr const char* kNumbers = R"(
total_epochs: 60
num_classes: 2
task: regress
loss: huber
task_kw: {delta: 2}
input: {data: TRAIN, batch_size: 32, pp: &pp 'value_range(-1, 1)|copy("label_sizes", "labels")|keep("image", "labels")'}
ema: {decay: 0.9}
evals:
  test: {type: regression, data: TEST, pp_fn: *pp, log_epochs: 20, batch_size: 16}
  outputs: {type: save, data: TEST, pp_fn: *pp, inputs: [labels], log_epochs: 60, skip_first: true,
            outfile: "{workdir}/o.npz"}
)";

// One of two classes to an image, with weights that balance the classes.
inline constexpr const char* kWeightedClasses = R"(
total_epochs: 2
num_classes: 2
task_kw: {class_weights: balanced}
loss: softmax_xent
input: {data: TRAIN, batch_size: 32, pp: &pp 'value_range(-1, 1)|onehot(2, key="label", key_result="labels")|keep("image", "labels")'}
evals:
  test: {type: class_metrics, data: TEST, pp_fn: *pp, log_epochs: 1, batch_size: 16}
)";

// Returns the last value of a metric.
inline double last_value(const std::vector<TextRow>& rows, const std::string& name) {
  for (auto row = rows.rbegin(); row != rows.rend(); ++row)
    if (row->contains(name)) return std::stod(row->at(name));
  FAIL("no metric " << name);
  return 0;
}

// Measures, without training, what `weights` give as model_init.
inline Finished measure_start(const Squares& squares, const std::string& weights,
                              const std::string& workdir, const std::string& dont_load = "[]") {
  std::vector<std::string> args = {"--config", squares.config, "--workdir", squares.dir / workdir};
  for (const std::string& value : {std::string("total_epochs=null"), std::string("total_steps=0"),
                                   std::string("evals.outputs=null"), "model_init=" + weights,
                                   "model_load={dont_load: " + dont_load + "}"})
    args.insert(args.end(), {"--set", value});
  return run(args);
}

}  // namespace bv::test
