// Other labels than one class per image, from the config to predictions: several classes, numbers,
// and weighted classes. With the real binary, on arrays.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/formats/npz.h"
#include "lib/ckpt/formats/safetensors.h"
#include "lib/util/file.h"
#include "test/e2e/squares.h"
#include "test/support/binary.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

// `exported` is a file of `bvtrain export`, of the run in the workdir "w".
void check_starts(const Squares& squares, const std::string& exported) {
  const double mae = last_value(metric_rows(squares.dir / "w"), "test/mae@0");
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
    CHECK(last_value(metric_rows(squares.dir / workdir), "test/mae@0") == mae);
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
  squares.write_config(kSeveralClasses);
  squares.train("w");
  const auto rows = metric_rows(squares.dir / "w");
  CHECK(last_value(rows, "test/f1_macro") > 0.9);
  CHECK(last_value(rows, "test/map") > 0.9);
  CHECK(last_value(rows, "test/auroc@2") > 0.9);
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
  CHECK(last_value(rows, "test/r2@0") > 0.5);
  CHECK(last_value(rows, "test/r2@1") > 0.5);
  CHECK(last_value(rows, "test/mae@0") >
        1);  // the labels are about 5600, with a spread of hundreds
  CHECK(last_value(rows, "test/mae@1") < 0.1);
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
  squares.write_config(kWeightedClasses);
  squares.train("one");
  const auto one = repeatable_rows(squares.dir / "one");
  for (const int ranks : {2, 4}) {
    const std::string name = "r" + std::to_string(ranks);
    squares.train(name, ranks);
    const auto rows = repeatable_rows(squares.dir / name);
    REQUIRE(rows.size() == one.size());
    for (const char* metric : {"training_loss", "test/log_loss", "test/auroc_macro", "test/map"}) {
      INFO(ranks << " processes, " << metric);
      CHECK(last_value(rows, metric) == Approx(last_value(one, metric)).epsilon(1e-4));
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
  for (const char* const text : {kSeveralClasses, kNumbers}) {
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

}  // namespace bv::test
