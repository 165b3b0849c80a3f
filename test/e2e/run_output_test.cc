// What a run writes and prints: files of the workdir, metrics, TensorBoard events, report, export,
// --dry-run, --list, --explain, --version, --cleanup.
#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "lib/ckpt/formats/npz.h"
#include "lib/ckpt/workdir/workdir.h"
#include "lib/util/file.h"
#include "test/support/binary.h"
#include "test/support/browser.h"
#include "test/support/digits_run.h"
#include "test/support/golden.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

const char* const kRunOutputConfig = R"(
num_classes: 10
total_steps: 12
input:
  data: {name: digits, split: train}
  batch_size: 32
  pp: value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
model_name: cnn
model: {widths: [8, 8], dense: 16}
init_head_bias: -2.0
optax_name: scale_by_adam
lr: 0.003
schedule: {decay_type: cosine}
log_training_steps: 5
ckpt_steps: 4
evals:
  b: &eval
    type: classification
    data: {name: digits, split: test}
    pp_fn: value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
    loss_name: sigmoid_xent
    log_steps: 6
  a:
    type: mean
    pred: loss
    prefix: mean_
    data: {name: digits, split: "test[:100]"}
    pp_fn: value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
)";

std::vector<int64_t> steps_of(const std::vector<TextRow>& rows) {
  std::vector<int64_t> steps;
  for (const TextRow& row : rows) steps.push_back(std::stoll(row.at("step")));
  return steps;
}

}  // namespace

TEST_CASE("a run's files") {
  TempFolder dir;
  write(dir / "c.yaml", kRunOutputConfig);
  const std::string out = dir / "out";
  const Finished finished =
      run({"--config", dir / "c.yaml", "--workdir", out, "--set", "model.dense=24"});
  INFO(finished.err);
  REQUIRE(finished.code == 0);

  SECTION("metric rows") {
    const auto rows = metric_rows(out);
    CHECK(steps_of(rows) == std::vector<int64_t>{0, 1, 2, 5, 6, 10, 12});
    CHECK(rows[0].count("num_params") == 1);
    CHECK(rows[0].count("b/prec@1") == 1);
    // Without log_* only the evaluation job runs it.
    for (const TextRow& row : rows) CHECK(row.count("mean_loss") == 0);
    CHECK(contains(finished.err,
                   "evals.a has no interval such as log_steps: only `bvtrain eval` runs it\n"));
    REQUIRE(run({"eval", "--workdir", out}).code == 0);
    CHECK(metric_rows(out + "/eval").back().count("mean_loss") == 1);
    CHECK(rows[1].count("z/secs/update0") == 1);
    CHECK(rows[1].at("training_loss") != "null");
    for (const char* name : {"l2_grads", "l2_params", "l2_updates", "training_loss",
                             "global_schedule", "examples_seen", "progress", "epoch"}) {
      INFO(name);
      CHECK(rows[3].count(name) == 1);
    }
    for (const char* name : {"b/prec@1", "b/prec@5", "b/loss", "z/secs/eval/b", "examples_seen"}) {
      INFO(name);
      CHECK(rows[4].count(name) == 1);
    }
    CHECK(rows[4].count("training_loss") == 0);
    CHECK(rows.back().at("examples_seen") == "384");
  }
  SECTION("the rest of the workdir") {
    for (const char* file :
         {"config.yaml", "run.json", "metrics.jsonl", "report.html", "learning_curve.svg",
          "log/rank-0.log", "DONE", "ckpt/LAST", "ckpt/step-12/manifest.json"}) {
      INFO(file);
      CHECK(exists(out + "/" + file));
    }
    const std::string config = read_file(out + "/config.yaml");
    CHECK(contains(config, "dense: 24"));
    CHECK(contains(config, "dense: 24  # --set"));
    CHECK(contains(config, "# default"));
    const std::string report = read_file(out + "/report.html");
    for (const char* part :
         {"<svg", "training_loss", "b/prec@1", "dense: 24", "data:image/png;base64,",
          "<dt>Command</dt><dd>", "<dt>Precision</dt><dd>", "LibTorch 2.",
          "<dt>Training data</dt><dd>", ", all steps done</dd>",
          "% sure</small><small class=\"file\">test row "}) {
      INFO(part);
      CHECK(contains(report, part));
    }
    CHECK(bv::test::page_problems({out + "/report.html"}) == "");
    const auto run_json = nlohmann::json::parse(read_file(out + "/run.json"));
    CHECK(run_json.at("restarts") == 0);
    CHECK(run_json.at("start") == "scratch");
    const std::string version = run({"--version"}).out;
    CHECK(contains(version, "bvtrain " + run_json.at("version").get<std::string>() + "\n"));
    CHECK(contains(version, "\ncommit: " + run_json.at("commit").get<std::string>() + "\n"));
    // The resolved config is a config too: it gives the same run.
    const Finished again = run({"--config", out + "/config.yaml", "--workdir", dir / "again"});
    INFO(again.err);
    REQUIRE(again.code == 0);
    CHECK_FALSE(contains(again.err, "has no effect"));
    CHECK(repeatable_rows(dir / "again") == repeatable_rows(out));
  }
  SECTION("TensorBoard reads the same numbers") {
    const std::string python = test_python();
    if (python.empty()) return;
    const std::string command = python + " " + source_file("scripts/check_tensorboard.py") + " " +
                                out + "/tb " + out + "/metrics.jsonl";
    CHECK(std::system(command.c_str()) == 0);
  }
  SECTION("export") {
    REQUIRE(run({"export", "--workdir", out, "--output", dir / "w.npz"}).code == 0);
    const NamedTensors weights = read_npz(dir / "w.npz");
    CHECK(weights.at("params/head/kernel").sizes() == at::IntArrayRef{24, 10});
    CHECK(weights.count("params/Conv_0/kernel") == 1);
    // A run that starts from these weights evaluates to the same numbers.
    const Finished loaded =
        run({"--config", dir / "c.yaml", "--workdir", dir / "loaded", "--set", "model.dense=24",
             "--set", "total_steps=0", "--set", "model_init=" + (dir / "w.npz")});
    INFO(loaded.err);
    REQUIRE(loaded.code == 0);
    CHECK(metric_rows(dir / "loaded")[0].at("b/loss") == metric_rows(out).back().at("b/loss"));
    CHECK(contains(loaded.err, "Initialize model from"));
    CHECK_FALSE(contains(loaded.err, "trains nothing"));
    const Finished part =
        run({"--config", dir / "c.yaml", "--workdir", dir / "part", "--set", "model.dense=24",
             "--set", "total_steps=0", "--set", "model_init=" + (dir / "w.npz"), "--set",
             "model_load.dont_load=['head/.*']"});
    INFO(part.err);
    CHECK(contains(part.err,
                   "warning: total_steps: 0 trains nothing, and no file sets these parameters: "
                   "they keep their initial values: head/kernel, head/bias\n"));
  }
}

TEST_CASE("init_head_bias sets the first loss") {
  TempFolder dir;
  write(dir / "c.yaml", kRunOutputConfig);
  for (const char* bias : {"-2.0", "-6.0"}) {
    const std::string out = dir / bias;
    REQUIRE(run({"--config", dir / "c.yaml", "--workdir", out, "--set",
                 std::string("init_head_bias=") + bias, "--set", "total_steps=1", "--set",
                 "precision=float32"})
                .code == 0);
  }
  // With all logits near the bias b, sigmoid_xent is about 9 softplus(b) + softplus(-b).
  CHECK(std::stod(metric_rows(dir / "-2.0")[0].at("b/loss")) <
        std::stod(metric_rows(dir / "-6.0")[0].at("b/loss")));
}

TEST_CASE("--dry-run checks and prints, and makes no workdir") {
  TempFolder dir;
  write(dir / "c.yaml", kRunOutputConfig);
  for (const char* flag : {"--dry-run", "--dry-run=full"}) {
    const Finished dry = run({"--config", dir / "c.yaml", "--workdir", dir / "out", flag});
    INFO(dry.err);
    CHECK(dry.code == 0);
    CHECK(contains(dry.out, "12 steps of 32"));
    CHECK(contains(dry.out, "1,437 examples"));
    CHECK(contains(dry.out, "360 examples"));
    CHECK(!exists(dir / "out"));
  }
  // This model is too large for a trial step, so that only its shapes are checked.
  const Finished large = run({"--config", source_file("configs/digits_vit.yaml"), "--dry-run",
                              "--set", "model={variant: g, patch_size: [2, 2]}"});
  INFO(large.err);
  CHECK(large.code == 0);
  CHECK(contains(large.out, "meta device"));
}

TEST_CASE("every shipped config passes --dry-run --synthetic") {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source_file("configs"))) {
    INFO(entry.path());
    // Files that others include are not whole configs.
    if (entry.path().extension() != ".yaml" || entry.path().parent_path().filename() == "include")
      continue;
    const Finished dry = run({"--config", entry.path().string(), "--dry-run", "--synthetic"});
    INFO(dry.err);
    CHECK(dry.code == 0);
  }
}

TEST_CASE("--list, --version, --explain, --help") {
  CHECK(contains(run({"--list", "models"}).out, "cnn\n"));
  CHECK(contains(run({"--list", "evals"}).out, "calibration\nclass_metrics\nclassification\n"));
  const Finished unknown = run({"--list", "modles"});
  CHECK(unknown.code == 2);
  CHECK(contains(unknown.err, "did you mean 'models'?"));
  CHECK_THAT(run({"--version"}).out,
             Catch::Matches("bvtrain [0-9.]+\ncommit: ([0-9a-f]{12}(-dirty)?|unknown)\n"
                            "LibTorch: 2\\.11\\.[^\n]*\ncompiler: [^\n]+\nCUDA plug-in: [^\n]+\n"));
  const std::string help = std::regex_replace(run({"--help"}).out, std::regex("\\s+"), " ");
  CHECK(contains(help, "Exit codes"));
  CHECK(contains(help, "write nothing but the index of the data; =full uses a whole batch"));
  const Finished explained = run({"--config", source_file("configs/digits_cnn.yaml"), "--explain"});
  INFO(explained.err);
  CHECK(explained.code == 0);
  CHECK(contains(explained.out, "lib/train/recipe.cc:"));
  CHECK(contains(explained.out, "models/cnn.cc:"));
}

TEST_CASE("--explain allocates no parameters") {
  TempFolder dir;
  write(dir / "c.yaml", R"(
num_classes: 1000
total_steps: 10
input:
  data: {name: synthetic, size: 64, image_size: 224, classes: 1000, encoded: none}
  batch_size: 8
  pp: 'value_range(-1, 1)|onehot(1000, key="label", key_result="labels")|keep("image", "labels")'
model_name: vit
model: {variant: L/16}
optax_name: scale_by_adam
lr: 0.001
log_training_steps: 5
)");
  const Finished explained = run({"--config", dir / "c.yaml", "--explain"});
  INFO(explained.err);
  CHECK(explained.code == 0);
  CHECK(contains(explained.out, "models/vit.cc:"));
  CHECK(explained.peak_mib < 1000);  // 304 million float32 parameters take 1160 MiB
}

TEST_CASE("printing to a full disk is an error") {
  const std::string binary = std::getenv("BVTRAIN");
  const TempFolder dir;
  const std::string command =
      binary + " --list ops > /dev/full 2> " + (dir / "err");  // a device that is always full
  const int status = std::system(command.c_str());
  CHECK(WEXITSTATUS(status) == 5);
  CHECK(read_file(dir / "err") == "standard output: error: No space left on device\n");
}

TEST_CASE("--cleanup removes the workdir after success; without a workdir nothing is written") {
  TempFolder dir;
  write(dir / "c.yaml", kRunOutputConfig);
  CHECK(run({"--config", dir / "c.yaml", "--workdir", dir / "out", "--cleanup"}).code == 0);
  CHECK(!exists(dir / "out"));
  CHECK(run({"--config", dir / "c.yaml"}).code == 0);
}

TEST_CASE("log_images_steps shows the training images in the report and in TensorBoard") {
  const DigitsRun f(digits_config("lr: 0.01\nlog_images_steps: 8\n"));
  REQUIRE(f.train().code == 0);
  const std::string page = read_text(f.workdir + "/report.html");
  CHECK(contains(page, "<h2>Training images</h2>"));
  CHECK(contains(page, "of the batch of step 16,"));
  std::string events;
  for (const auto& entry : std::filesystem::directory_iterator(f.workdir + "/tb"))
    events += read_text(entry.path());
  CHECK(count(events, "training_images") == 3);  // steps 1, 8 and 16
  CHECK(count(events, "\x89PNG") == 3);
  const DigitsRun without(digits_config("lr: 0.01\n"));
  REQUIRE(without.train().code == 0);
  CHECK_FALSE(contains(read_text(without.workdir + "/report.html"), "Training images"));
  CHECK(repeatable_rows(f.workdir) == repeatable_rows(without.workdir));
}

TEST_CASE("rows and checkpoints at growing steps") {
  const DigitsRun f(
      digits_config("lr: 0.01\nmax_checkpoints_to_keep: 9\n"
                    "periodic_action_growth_ratios: [1, 1.8, 3]\n"));
  const Finished finished = f.train();
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  std::vector<std::string> steps;
  for (const TextRow& row : metric_rows(f.workdir)) steps.push_back(row.at("step"));
  // The interval is 5. After 10 comes 1.8 * 10 = 18.
  CHECK(steps == std::vector<std::string>{"0", "1", "2", "3", "5", "10", "15", "18", "20"});
  for (const int64_t step : {1, 2, 3, 5, 10, 15, 18, 20}) CHECK(exists(f.step(step)));
  const Finished large = f.train({"--dry-run", "--set", "periodic_action_growth_ratios=[3,30,50]"});
  CHECK(contains(large.err,
                 "periodic_action_growth_ratios: 50 has no effect, because factors are below 10, "
                 "as in JAXline; write 5 for the steps 5, 50, 500 and so on\n"));
  CHECK_FALSE(contains(large.err, "30 has no effect"));
  const Finished seconds = f.train({"--set", "ckpt_steps=null", "--set", "ckpt_seconds=5"});
  CHECK(seconds.code == 2);
  CHECK(contains(seconds.err,
                 "periodic_action_growth_ratios: needs intervals in steps: log_training and ckpt "
                 "cannot be in seconds"));
  const DigitsRun unsaved(read_text(f.config));
  REQUIRE(unsaved.train_with({"ckpt_steps=0"}).code == 0);
  CHECK(CkptFolder(unsaved.workdir + "/ckpt").steps() == std::vector<int64_t>{20});
}

}  // namespace bv::test
