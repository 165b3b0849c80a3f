// Evaluators from a YAML config, with the real binary: metric names, files, and outputs that the
// model does not have.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "lib/ckpt/formats/npz.h"
#include "lib/util/file.h"
#include "test/support/binary.h"
#include "test/support/digits_run.h"
#include "test/support/golden.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

const char* const kEvaluatorsConfig = R"(
num_classes: 10
total_steps: 4
precision: float32
input:
  data: {name: digits, split: train}
  batch_size: 32
  pp: &pp value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
model_name: cnn
model: {widths: [8, 8], dense: 16}
optax_name: scale_by_adam
lr: 0.003
log_training_steps: 4
evals:
  fewshot: &fewshot
    type: fewshot_lsr
    prefix: ''
    datasets:
      digits: [digits, "train[:500]", "test[:200]"]
      again: {train: {name: digits, split: "train[500:900]"}, test: {name: digits, split: test}}
    shots: [1, 5]
    l2_reg: 1024
    num_seeds: 2
    pp_train: &plain value_range(-1, 1)|keep("image", "label")
    pp_eval: *plain
    representation_layer: pre_logits
    display_first: [[digits, 5]]
    log_steps: 2
  knn: {train: {name: digits, split: train}, data: {name: digits, split: test}, pp_fn: *plain,
        k: [1, 20], representation_layer: pre_logits, log_steps: 4}
  calibration: {data: {name: digits, split: test}, pp_fn: *pp, log_steps: 4}
  save: {data: {name: digits, split: "test[:50]"}, pp_fn: *pp, outputs: [logits, pre_logits],
         inputs: [labels], log_steps: 4, skip_first: true}
)";

}  // namespace

TEST_CASE("a run's representations are evaluated, saved and shown") {
  TempFolder dir;
  write(dir / "c.yaml", kEvaluatorsConfig);
  const Finished finished = run({"--config", dir / "c.yaml", "--workdir", dir / "out"});
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  const auto rows = metric_rows(dir / "out");
  for (const size_t row : {size_t{0}, rows.size() - 1}) {
    for (const int seed : {0, 1}) {
      for (const char* name :
           {"z/digits_1shot", "a/digits_5shot", "z/again_1shot", "z/again_5shot"}) {
        const std::string metric = name + std::string("-seed-") + std::to_string(seed);
        INFO(metric);
        REQUIRE(rows[row].count(metric) == 1);
        CHECK(std::stod(rows[row].at(metric)) > 0.15);  // chance is 0.1
      }
    }
  }
  CHECK(std::stod(rows[0].at("knn/prec@1_k=1")) > 0.5);
  for (const char* name : {"knn/prec@1_k=20", "calibration/ece", "calibration/mce",
                           "calibration/confidence", "calibration/prec@1"}) {
    INFO(name);
    CHECK(rows[0].count(name) == 1);
  }
  CHECK(contains(read_file(dir / "out/report.html"), "<h3>Confidence</h3>"));
  CHECK(!exists(dir / "out/save-000000000.npz"));
  const NamedTensors saved = read_npz(dir / "out/save-000000004.npz");
  REQUIRE(saved.size() == 3);
  CHECK(saved.at("inputs/labels").sizes() == at::IntArrayRef{50, 10});
  CHECK(saved.at("outputs/logits").sizes() == at::IntArrayRef{50, 10});
  CHECK(saved.at("outputs/pre_logits").sizes() == at::IntArrayRef{50, 16});

  // Another evaluator reads what was saved.
  const Finished stored =
      run({"--config", dir / "c.yaml", "--workdir", dir / "stored", "--set",
           "evals={d: {type: proj.distill.distance, file: '" + (dir / "out/save-000000004.npz") +
               "', what: [outputs/logits, outputs/logits], distances: [{kind: kl, t: 2}], "
               "log_steps: 4}}"});
  INFO(stored.err);
  REQUIRE(stored.code == 0);
  const auto row = metric_rows(dir / "stored")[0];
  CHECK(row.at("d/kind=kl_t=2/all") == "50");
  CHECK(std::abs(std::stod(row.at("d/kind=kl_t=2/max"))) < 1e-9);
}

TEST_CASE("few-shot, kNN and calibration equal what NumPy computes from the files of save") {
  const std::string python = test_python();
  if (python.empty()) return;
  TempFolder dir;
  write(dir / "c.yaml", kEvaluatorsConfig);
  const std::string data = "data: {name: digits, split: ";
  const std::string rest = ", pp_fn: 'value_range(-1, 1)|keep(\"image\", \"label\")', ";
  const std::string knn = "train: {name: digits, split: train}, " + data + "test}" + rest +
                          "k: [1, 5, 20], representation_layer: pre_logits";
  const std::string save = rest + "outputs: [logits, pre_logits], log_steps: 4}";
  const Finished finished =
      run({"--config",  dir / "c.yaml",
           "--workdir", dir / "out",
           "--set",     "evals.fewshot.datasets={digits: [digits, train, test]}",
           "--set",     "evals.fewshot.l2_reg=[0.001, 1, 1024]",
           "--set",     "evals.fewshot.shots=[1, 2, 25]",
           "--set",     "evals.fewshot.num_seeds=12",
           "--set",     "evals.knn={log_steps: 4, " + knn + "}",
           "--set",     "evals.majority={type: knn, vote: majority, log_steps: 4, " + knn + "}",
           "--set",     "evals.calibration.log_steps=4",
           "--set",     "evals.calibration.probabilities=softmax",
           "--set",     "evals.train={type: save, batch_size: 100, " + data + "train}" + save,
           "--set",     "evals.test={type: save, " + data + "test}" + save});
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  const std::string command =
      python + " " + source_file("scripts/golden/check_evaluators.py") + " " + (dir / "out") + " 4";
  CHECK(std::system(command.c_str()) == 0);
}

TEST_CASE("a dry run builds these evaluators too") {
  TempFolder dir;
  write(dir / "c.yaml", kEvaluatorsConfig);
  for (const char* flag : {"--dry-run", "--dry-run=full"}) {
    const Finished dry = run({"--config", dir / "c.yaml", flag});
    INFO(dry.err);
    CHECK(dry.code == 0);
    CHECK(contains(dry.out, "evaluator   knn: 1,797 examples"));
  }
  const std::string pp =
      "decode(channels=1)|resize(8)|value_range(-1, 1)|keep(\"image\", \"label\")";
  const Finished synthetic =
      run({"--config", dir / "c.yaml", "--dry-run", "--synthetic", "--set",
           "evals.fewshot.datasets={cars: ['cars196:2.1.0', train, 'test[:50%]']}", "--set",
           "evals.fewshot.pp_train='" + pp + "'", "--set", "evals.fewshot.pp_eval='" + pp + "'"});
  INFO(synthetic.err);
  CHECK(synthetic.code == 0);
}

TEST_CASE("an output that the model does not have is refused before the run starts") {
  TempFolder dir;
  write(dir / "c.yaml", kEvaluatorsConfig);
  for (const std::string& more : {std::string(), std::string("--dry-run")}) {
    std::vector<std::string> args = {"--config",  dir / "c.yaml",
                                     "--workdir", dir / "out",
                                     "--set",     "evals.fewshot.representation_layer=prelogits"};
    if (!more.empty()) args.push_back(more);
    const Finished finished = run(args);
    CHECK(finished.code == 2);
    CHECK(contains(finished.err,
                   "error: evals.fewshot: the model has no output 'prelogits'; it "
                   "has: conv_0, conv_1, logits, pre_logits"));
    CHECK(!exists(dir / "out"));
  }
}

TEST_CASE("an evaluator that takes longer than its interval does not run at every step") {
  const DigitsRun f(digits_config("lr: 0.01\nevals:\n") +
                    digits_evaluator("test", {"log_seconds: 0.2"}));
  const Finished finished =
      f.train_with({"total_steps=400", "log_training_steps=100", "ckpt_steps=0"},
                   {{"BVTRAIN_SLEEP_AT", "eval.rank0:1+:0.3"}});
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  int evaluated = 0;
  for (const TextRow& row : metric_rows(f.workdir)) evaluated += row.contains("test/loss") ? 1 : 0;
  const auto result = nlohmann::json::parse(read_text(f.workdir + "/result.json"));
  // Those before the first step and after the last one are not due by the clock.
  CHECK(evaluated - 2 <= 1 + result.at("training_seconds").get<double>() / 0.2);
}

}  // namespace bv::test
