// Labels in several columns of a CSV file: several classes, soft labels, numbers. With the real
// binary, on PNG files.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <utility>

#include "lib/ckpt/formats/npz.h"
#include "test/e2e/bad_input.h"
#include "test/e2e/squares.h"
#include "test/support/binary.h"
#include "test/support/image_files.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

// The squares as PNG files with a CSV file, a column for each class and for each number.
void write_csv(const Squares& squares, const std::string& split, bool soft) {
  const NamedTensors data = read_npz(squares.dir / (split + ".npz"));
  std::string rows = "image,left,middle,right,sum,first\n";
  for (int64_t i = 0; i < data.at("image").size(0); ++i) {
    const std::string name = fmt::format("{}/{}.png", split, i);
    const at::Tensor image = data.at("image")[i].contiguous();
    const auto* pixels = image.const_data_ptr<uint8_t>();
    write(squares.dir / name,
          encode_png({pixels, pixels + image.numel()}, 6, 6, SPNG_COLOR_TYPE_GRAYSCALE, 8));
    rows += name;
    for (int64_t c = 0; c < 3; ++c) {
      const auto label = data.at("labels")[i][c].item<double>();
      rows += fmt::format(",{}", soft ? 0.8 * label + 0.1 : label);
    }
    for (int64_t t = 0; t < 2; ++t)
      rows += fmt::format(",{}", data.at("label_sizes")[i][t].item<double>());
    rows += "\n";
  }
  write(squares.dir / (split + ".csv"), rows);
}

}  // namespace

TEST_CASE("a CSV file of images gives several classes, soft labels or numbers") {
  const Squares squares;
  const auto config = [&](std::string text, const std::string& label) {
    for (const std::string name : {"TRAIN", "TEST"}) {
      const std::string file = squares.dir / (name == "TRAIN" ? "train.csv" : "test.csv");
      text = replace_all(std::move(text), name,
                         "{name: csv, fname: '" + file + "', label: " + label + "}");
    }
    text = replace_all(std::move(text), "value_range(", "decode(1)|value_range(");
    write(squares.config, kSquaresKeys + text);
  };
  const auto rows_of = [&](const std::string& workdir) {
    squares.train(workdir);
    return metric_rows(squares.dir / workdir);
  };
  for (const std::string split : {"train", "test"}) write_csv(squares, split, /*soft=*/false);
  config(kSeveralClasses, "[left, middle, right]");
  const auto hard = rows_of("hard");
  CHECK(last_value(hard, "test/f1_macro") > 0.9);
  // The same as from arrays.
  squares.write_config(kSeveralClasses);
  const auto arrays = rows_of("arrays");
  REQUIRE(arrays.size() == hard.size());
  for (size_t i = 0; i < hard.size(); ++i) {
    for (const char* name : {"training_loss", "l2_params", "test/f1_macro", "test/map"})
      if (arrays[i].contains(name)) CHECK(hard[i].at(name) == arrays[i].at(name));
  }

  config(replaced(kNumbers, "copy(\"label_sizes\", \"labels\")|", ""), "[sum, first]");
  const auto numbers = rows_of("numbers");
  CHECK(last_value(numbers, "test/r2@sum") > 0.5);
  CHECK(last_value(numbers, "test/r2@first") > 0.5);
  config(replaced(kNumbers, "copy(\"label_sizes\", \"labels\")|", ""), "[first, sum]");
  const Finished swapped = measure_start(squares, squares.dir / "numbers", "swapped");
  INFO(swapped.err);
  CHECK(contains(swapped.err,
                 "was trained for the targets sum, first, but those of this run are "
                 "first, sum: its outputs stand for the wrong targets until training has adapted "
                 "it, and it keeps their scale; model_load: {dont_load: ['buffers/targets/.*', "
                 "'head/.*']} starts with a new layer"));
  // The same with `resume` and a weights file.
  const std::string file = squares.dir / "numbers.safetensors";
  REQUIRE(run({"export", "--workdir", squares.dir / "numbers", "--format", "safetensors",
               "--output", file})
              .code == 0);
  const Finished resumed = run({"--config", squares.config, "--workdir", squares.dir / "resumed",
                                "--set", "total_epochs=null", "--set", "total_steps=0", "--set",
                                "evals.outputs=null", "--set", "resume=" + file});
  INFO(resumed.err);
  CHECK(contains(resumed.err, "resume: the last layer of " + file +
                                  " was trained for the targets sum, first, but those of this run "
                                  "are first, sum: "));
  CHECK(contains(resumed.err,
                 "; model_init with model_load: {dont_load: "
                 "['buffers/targets/.*', 'head/.*']} starts with a new layer"));

  write_csv(squares, "train", /*soft=*/true);
  config(kSeveralClasses, "[left, middle, right]");
  const auto soft = rows_of("soft");
  CHECK(last_value(soft, "test/f1_macro") > 0.9);
  // The entropy of the labels 0.1 and 0.9 is the minimum loss.
  const double least = -3 * (0.1 * std::log(0.1) + 0.9 * std::log(0.9));
  CHECK(last_value(soft, "training_loss") > least);
  CHECK(last_value(soft, "training_loss") < 1.5 * least);

  write_csv(squares, "test", /*soft=*/true);
  config(replaced(kSeveralClasses, "metrics: [f1_macro, map, auroc_per_class]",
                  "soft_labels: true, metrics: [f1_macro, log_loss]"),
         "[left, middle, right]");
  const auto measured = rows_of("measured");
  CHECK(last_value(measured, "test/f1_macro") == last_value(soft, "test/f1_macro"));
  CHECK(last_value(measured, "test/log_loss") > least / 3);
  CHECK(last_value(measured, "test/log_loss") < 1.5 * least / 3);
}

TEST_CASE("labels made from another column have none of the names and counts of `label`") {
  const Squares squares;
  for (const std::string split : {"train", "test"}) {
    write_csv(squares, split, /*soft=*/false);
    std::string rows = "image,label,right\n";
    for (int i = 0; i < 60; ++i)
      rows += fmt::format("{}/{}.png,{},{:d}\n", split, i, i % 2 == 0 ? "a" : "b", i % 3 == 0);
    write(squares.dir / (split + ".csv"), rows);
  }
  std::string text = replaced(kWeightedClasses, "task_kw: {class_weights: balanced}\n", "");
  text = replaced(text, "key=\"label\"", "key=\"right\"");
  text = replaced(text, "log_epochs: 1,", "log_epochs: 1, metrics: [f1_per_class],");
  text = replace_all(std::move(text), "value_range(", "decode(1)|value_range(");
  for (const std::string name : {"TRAIN", "TEST"}) {
    const std::string file = squares.dir / (name == "TRAIN" ? "train.csv" : "test.csv");
    text = replace_all(std::move(text), name, "{name: csv, fname: '" + file + "'}");
  }
  write(squares.config, kSquaresKeys + text);
  squares.train("run");
  const std::vector<TextRow> rows = metric_rows(squares.dir / "run");
  CHECK(rows.back().contains("test/f1@0"));
  CHECK_FALSE(rows.back().contains("test/f1@a"));
  const Finished predicted = run({"predict", "--workdir", squares.dir / "run", "--eval", "test",
                                  "--first", "2", "--output", "-"});
  INFO(predicted.err);
  CHECK(predicted.code == 0);
  CHECK_FALSE(contains(predicted.out, "\"a\""));
  const Finished weighted = run({"--config", squares.config, "--workdir", squares.dir / "w",
                                 "--set", "task_kw.class_weights=balanced"});
  CHECK(weighted.code == 2);
  CHECK(contains(weighted.err,
                 "class_weights: 'balanced' counts the classes of the feature 'label', but "
                 "input.pp makes the labels from 'right'; give a list of 2 weights"));
}

}  // namespace bv::test
