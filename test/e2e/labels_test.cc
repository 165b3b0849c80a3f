// Other labels than one class per image, from the config to predictions: several classes, numbers,
// and weighted classes. With the real binary.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/formats/npz.h"
#include "lib/ckpt/formats/safetensors.h"
#include "lib/util/file.h"
#include "lib/util/text.h"
#include "test/e2e/bad_input.h"
#include "test/support/binary.h"
#include "test/support/image_files.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

// Bright squares in a dark image: `labels` (n, 3) marks which of three columns contain one, and
// `sizes` (n, 2) is a linear function of their brightness.
void write_squares(const std::string& file, int64_t n, uint64_t seed) {
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

constexpr const char* kCommon = R"(
log_training_epochs: 1
ckpt_epochs: 100
compute_threads: 1
precision: float32
model_name: cnn
model: {widths: [8], dense: 16}
optax_name: scale_by_adam
lr: 0.01
)";

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
    write(config, kCommon + text);
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

constexpr const char* kSeveral = R"(
total_epochs: 40
num_classes: 3
task_kw: {multilabel: true}
loss: sigmoid_xent
input: {data: TRAIN, batch_size: 32, pp: 'value_range(-1, 1)|keep("image", "labels")'}
evals:
  test: {type: class_metrics, data: TEST, pp_fn: 'value_range(-1, 1)|keep("image", "labels")',
         metrics: [f1_macro, map, auroc_per_class], log_epochs: 20, batch_size: 16}
)";

constexpr const char* kNumbers = R"(
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

constexpr const char* kWeighted = R"(
total_epochs: 2
num_classes: 2
task_kw: {class_weights: balanced}
loss: softmax_xent
input: {data: TRAIN, batch_size: 32, pp: &pp 'value_range(-1, 1)|onehot(2, key="label", key_result="labels")|keep("image", "labels")'}
evals:
  test: {type: class_metrics, data: TEST, pp_fn: *pp, log_epochs: 1, batch_size: 16}
)";

double last(const std::vector<TextRow>& rows, const std::string& name) {
  for (auto row = rows.rbegin(); row != rows.rend(); ++row)
    if (row->contains(name)) return std::stod(row->at(name));
  FAIL("no metric " << name);
  return 0;
}

// Measures, without training, what `weights` give as model_init.
Finished measure_start(const Squares& squares, const std::string& weights,
                       const std::string& workdir, const std::string& dont_load = "[]") {
  std::vector<std::string> args = {"--config", squares.config, "--workdir", squares.dir / workdir};
  for (const std::string& value : {std::string("total_epochs=null"), std::string("total_steps=0"),
                                   std::string("evals.outputs=null"), "model_init=" + weights,
                                   "model_load={dont_load: " + dont_load + "}"})
    args.insert(args.end(), {"--set", value});
  return run(args);
}

// `exported` is a file of `bvtrain export`, of the run in the workdir "w".
void check_starts(const Squares& squares, const std::string& exported) {
  const double mae = last(metric_rows(squares.dir / "w"), "test/mae@0");
  const std::string average = squares.dir / "average.npz", bare = squares.dir / "bare.npz";
  const Finished averaged =
      run({"ckpt", "average", squares.dir / "w", "--last", "1", "--output", average});
  INFO(averaged.err);
  REQUIRE(averaged.code == 0);
  for (const std::string& file : {exported, average}) {
    const std::string workdir = file == average ? "from-average" : "from-export";
    const Finished started = measure_start(squares, file, workdir);
    INFO(started.err);
    REQUIRE(started.code == 0);
    CHECK(last(metric_rows(squares.dir / workdir), "test/mae@0") == mae);
  }
  // A file whose outputs are in the units of the labels.
  NamedTensors without = read_safetensors(exported);
  CHECK(without.erase("buffers/targets/mean") == 1);
  CHECK(without.erase("buffers/targets/std") == 1);
  write_npz(bare, without);
  for (const char* dont_load : {"[]", "['buffers/targets/.*']"}) {
    const Finished refused = measure_start(squares, bare, "refused", dont_load);
    CHECK(refused.code == 2);
    CHECK(contains(refused.err, "it has no target scale (buffers/targets/mean, "));
    CHECK(contains(refused.err, "dont_load: ['buffers/targets/.*', 'head/.*']"));
  }
  const Finished half = measure_start(squares, exported, "half", "['head/.*']");
  CHECK(half.code == 0);
  CHECK(contains(half.err, "its target scale is loaded but not its last layer"));
  const Finished fresh = measure_start(squares, bare, "fresh", "['buffers/targets/.*', 'head/.*']");
  INFO(fresh.err);
  CHECK(fresh.code == 0);
}

}  // namespace

TEST_CASE("several classes to an image: training, metrics, report, predictions") {
  const Squares squares;
  squares.write_config(kSeveral);
  squares.train("w");
  const auto rows = metric_rows(squares.dir / "w");
  CHECK(last(rows, "test/f1_macro") > 0.9);
  CHECK(last(rows, "test/map") > 0.9);
  CHECK(last(rows, "test/auroc@2") > 0.9);
  const std::string report = read_file(squares.dir / "w/report.html");
  CHECK(report.find("<h3>Metrics per class</h3>") != std::string::npos);
  CHECK(report.find(">ROC</text>") != std::string::npos);
  const Finished evaluated = run({"eval", "--workdir", squares.dir / "w"});
  INFO(evaluated.err);
  CHECK(evaluated.code == 0);

  const at::Tensor labels = read_npz(squares.dir / "test.npz").at("labels");
  const auto lines = squares.predict({"--workdir", squares.dir / "w", "--top", "3"});
  REQUIRE(lines.size() == 60);
  int right = 0;
  double sum = 0;
  for (int64_t i = 0; i < 60; ++i) {
    REQUIRE(lines[i].at("top").size() == 3);
    for (const auto& guess : lines[i].at("top")) {
      const auto p = guess.at("probability").get<double>();
      sum += p;
      right += (p >= 0.5) == (labels[i][guess.at("index").get<int64_t>()].item<float>() == 1);
    }
  }
  CHECK(right > 160);                                       // of 180
  CHECK(std::abs(sum - labels.sum().item<double>()) < 20);  // not one class to an image

  // An exported file says that the classes are independent.
  const std::string file = squares.dir / "w.safetensors";
  REQUIRE(
      run({"export", "--workdir", squares.dir / "w", "--format", "safetensors", "--output", file})
          .code == 0);
  const auto table = [&](const std::string& flag, const std::string& from) {
    return run({"predict", "--input", squares.dir / "test.npz", flag, from}).out;
  };
  CHECK(table("--weights", file) == table("--workdir", squares.dir / "w"));
}

TEST_CASE("numbers: metrics, predictions and exported weights are in the units of the labels") {
  const Squares squares;
  squares.write_config(kNumbers);
  squares.train("w");
  const auto rows = metric_rows(squares.dir / "w");
  CHECK(last(rows, "test/r2@0") > 0.5);
  CHECK(last(rows, "test/r2@1") > 0.5);
  CHECK(last(rows, "test/mae@0") > 1);  // the labels are about 5600, with a spread of hundreds
  CHECK(last(rows, "test/mae@1") < 0.1);
  CHECK(read_file(squares.dir / "w/report.html").find(">Error of target 1</text>") !=
        std::string::npos);

  const NamedTensors saved = read_npz(squares.dir / "w/o.npz");
  const at::Tensor outputs = saved.at("outputs/logits");
  const auto check_values = [&](const std::vector<nlohmann::json>& lines,
                                const at::Tensor& values) {
    REQUIRE(std::ssize(lines) == values.size(0));
    for (int64_t i = 0; i < values.size(0); ++i) {
      for (int64_t t = 0; t < 2; ++t) {
        const auto expected = values[i][t].item<double>();
        CHECK(lines[i].at("values").at(t).get<double>() ==
              Approx(expected).epsilon(1e-5).margin(1e-6));
      }
    }
  };
  const std::vector<nlohmann::json> predicted = squares.predict({"--workdir", squares.dir / "w"});
  check_values(predicted, outputs);
  for (const std::string name : {"e.npz", "e.safetensors"}) {
    const Finished exported = run({"export", "--workdir", squares.dir / "w", "--format",
                                   name.substr(2), "--output", squares.dir / name});
    INFO(exported.err);
    REQUIRE(exported.code == 0);
    CHECK(squares.predict({"--weights", squares.dir / name}) == predicted);  // bit for bit
  }
  check_starts(squares, squares.dir / "e.safetensors");
  const Finished evaluated = run({"eval", "--workdir", squares.dir / "w"});
  INFO(evaluated.err);
  CHECK(evaluated.code == 0);
}

TEST_CASE("two and four processes measure and train the same with weighted classes") {
  const Squares squares;
  squares.write_config(kWeighted);
  squares.train("one");
  const auto one = repeatable_rows(squares.dir / "one");
  for (const int ranks : {2, 4}) {
    const std::string name = "r" + std::to_string(ranks);
    squares.train(name, ranks);
    const auto rows = repeatable_rows(squares.dir / name);
    REQUIRE(rows.size() == one.size());
    for (const char* metric : {"training_loss", "test/log_loss", "test/auroc_macro", "test/map"}) {
      INFO(ranks << " processes, " << metric);
      CHECK(last(rows, metric) == Approx(last(one, metric)).epsilon(1e-4));
    }
  }
}

TEST_CASE("targets that cannot be learnt are found before the run") {
  const Squares squares;
  write_npz(squares.dir / "train.npz", {{"image", at::zeros({40, 6, 6, 1}, at::kByte)},
                                        {"label_sizes", at::full({40, 2}, 2.5)}});
  squares.write_config(kNumbers);
  const Finished finished = run({"--config", squares.config, "--dry-run"});
  CHECK(finished.code == 2);
  CHECK(finished.err.find("input.data: target 0 is constant (2.5) in all 40 training "
                          "examples: there is nothing to learn, and it cannot be normalized") !=
        std::string::npos);
}

// Each process computes batches of the same shape, so its matrix products are bit-identical.
TEST_CASE("one, two and four processes measure the same bits from the same weights") {
  for (const char* const text : {kSeveral, kNumbers}) {
    const Squares squares;
    squares.write_config(text);
    squares.train("w");
    std::vector<TextRow> one;
    for (const int ranks : {1, 2, 4}) {
      const std::string workdir = squares.dir / fmt::format("r{}", ranks);
      std::vector<std::string> args = {"--config", squares.config, "--workdir",
                                       workdir,    "--devices",    fmt::format("cpu:{}", ranks)};
      for (const std::string& value :
           {std::string("total_epochs=null"), std::string("total_steps=0"),
            "model_init=" + (squares.dir / "w"),
            fmt::format("evals.test.batch_size={}", 16 * ranks), std::string("evals.outputs=null")})
        args.insert(args.end(), {"--set", value});
      const Finished finished = run(args);
      INFO(finished.err);
      REQUIRE(finished.code == 0);
      std::vector<TextRow> rows = repeatable_rows(workdir);
      REQUIRE(rows.size() == 1);
      REQUIRE(rows[0].size() > 5);
      if (ranks == 1) one = rows;
      INFO(ranks << " processes");
      CHECK(rows == one);
    }
  }
}

TEST_CASE("a continued run keeps the scale of its targets, whatever its data are now") {
  const Squares squares;
  squares.write_config(kNumbers);
  const auto train = [&](const std::string& epochs) {
    return run({"--config", squares.config, "--workdir", squares.dir / "w", "--set",
                "total_epochs=" + epochs, "--accept-changes"});
  };
  const auto scale = [&] {
    const NamedTensors state = Checkpointer::load(squares.dir / "w").tensors;
    return at::cat({state.at("buffers/targets/mean"), state.at("buffers/targets/std")});
  };
  REQUIRE(train("2").code == 0);
  const at::Tensor before = scale().clone();
  NamedTensors data = read_npz(squares.dir / "train.npz");
  data["label_sizes"] = data["label_sizes"] * 2 + 10;
  write_npz(squares.dir / "train.npz", data);
  const Finished continued = train("4");
  INFO(continued.err);
  REQUIRE(continued.code == 0);
  CHECK(scale().equal(before));
}

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

TEST_CASE("a CSV file of images gives several classes, soft labels or numbers") {
  const Squares squares;
  const auto config = [&](std::string text, const std::string& label) {
    for (const std::string name : {"TRAIN", "TEST"}) {
      const std::string file = squares.dir / (name == "TRAIN" ? "train.csv" : "test.csv");
      text = replace_all(std::move(text), name,
                         "{name: csv, fname: '" + file + "', label: " + label + "}");
    }
    text = replace_all(std::move(text), "value_range(", "decode(1)|value_range(");
    write(squares.config, kCommon + text);
  };
  const auto rows_of = [&](const std::string& workdir) {
    squares.train(workdir);
    return metric_rows(squares.dir / workdir);
  };
  for (const std::string split : {"train", "test"}) write_csv(squares, split, /*soft=*/false);
  config(kSeveral, "[left, middle, right]");
  const auto hard = rows_of("hard");
  CHECK(last(hard, "test/f1_macro") > 0.9);
  // The same as from arrays.
  squares.write_config(kSeveral);
  const auto arrays = rows_of("arrays");
  REQUIRE(arrays.size() == hard.size());
  for (size_t i = 0; i < hard.size(); ++i) {
    for (const char* name : {"training_loss", "l2_params", "test/f1_macro", "test/map"})
      if (arrays[i].contains(name)) CHECK(hard[i].at(name) == arrays[i].at(name));
  }

  config(replaced(kNumbers, "copy(\"label_sizes\", \"labels\")|", ""), "[sum, first]");
  const auto numbers = rows_of("numbers");
  CHECK(last(numbers, "test/r2@sum") > 0.5);
  CHECK(last(numbers, "test/r2@first") > 0.5);
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
  config(kSeveral, "[left, middle, right]");
  const auto soft = rows_of("soft");
  CHECK(last(soft, "test/f1_macro") > 0.9);
  // The entropy of the labels 0.1 and 0.9 is the minimum loss.
  const double least = -3 * (0.1 * std::log(0.1) + 0.9 * std::log(0.9));
  CHECK(last(soft, "training_loss") > least);
  CHECK(last(soft, "training_loss") < 1.5 * least);

  write_csv(squares, "test", /*soft=*/true);
  config(replaced(kSeveral, "metrics: [f1_macro, map, auroc_per_class]",
                  "soft_labels: true, metrics: [f1_macro, log_loss]"),
         "[left, middle, right]");
  const auto measured = rows_of("measured");
  CHECK(last(measured, "test/f1_macro") == last(soft, "test/f1_macro"));
  CHECK(last(measured, "test/log_loss") > least / 3);
  CHECK(last(measured, "test/log_loss") < 1.5 * least / 3);
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
  std::string text = replaced(kWeighted, "task_kw: {class_weights: balanced}\n", "");
  text = replaced(text, "key=\"label\"", "key=\"right\"");
  text = replaced(text, "log_epochs: 1,", "log_epochs: 1, metrics: [f1_per_class],");
  text = replace_all(std::move(text), "value_range(", "decode(1)|value_range(");
  for (const std::string name : {"TRAIN", "TEST"}) {
    const std::string file = squares.dir / (name == "TRAIN" ? "train.csv" : "test.csv");
    text = replace_all(std::move(text), name, "{name: csv, fname: '" + file + "'}");
  }
  write(squares.config, kCommon + text);
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
