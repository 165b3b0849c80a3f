// bvtrain eval: the rows of a process of its own are those of the run, each checkpoint once.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "test/support/binary.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = R"(
num_classes: 10
total_steps: 20
log_training_steps: 5
ckpt_steps: 5
keep_ckpt_steps: 5
input:
  data: {name: digits, split: train}
  batch_size: 64
  pp: value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
model_name: cnn
model: {widths: [4]}
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.01
ema: {decay: 0.9}
evals:
  average:
    type: classification
    data: {name: digits, split: test}
    pp_fn: value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
    loss_name: softmax_xent
    ema: true
    log_steps: 5
  only_job:
    type: classification
    data: {name: digits, split: "test[:100]"}
    pp_fn: value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
    loss_name: softmax_xent
  test:
    type: classification
    data: {name: digits, split: test}
    pp_fn: value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
    loss_name: softmax_xent
    log_steps: 5
)";

struct EvaluatedRun {
  TempFolder dir;
  std::string config = dir / "c.yaml", workdir = dir / "w";

  EvaluatedRun() { write(config, kConfig); }
  Finished train(const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> args = {"--config", config, "--workdir", workdir};
    args.insert(args.end(), flags.begin(), flags.end());
    return run(args);
  }
  Finished evaluate(const std::vector<std::string>& flags = {},
                    const Environment& environment = {}) const {
    std::vector<std::string> args = {"eval", "--workdir", workdir};
    args.insert(args.end(), flags.begin(), flags.end());
    return run(args, environment);
  }
};

// The metrics of a row whose names begin with `prefix`.
TextRow part(const TextRow& row, const std::string& prefix) {
  TextRow out;
  for (const auto& [name, value] : row) {
    if (name.starts_with(prefix)) out[name] = value;
  }
  return out;
}

}  // namespace

TEST_CASE("bvtrain eval writes the rows of the run, to the bit, each once") {
  const EvaluatedRun f;
  REQUIRE(f.train().code == 0);
  // Killed before its second row is written.
  CHECK(f.evaluate({}, {{"BVTRAIN_CRASH_AT", "evaluate.row:2"}}).code == 137);
  CHECK(metric_rows(f.workdir + "/eval").size() == 1);
  const Finished evaluated = f.evaluate();
  INFO(evaluated.err);
  REQUIRE(evaluated.code == 0);
  CHECK(contains(evaluated.err, "Evaluated 3 checkpoints; the rows are in "));
  std::map<std::string, TextRow> in_loop;
  for (const TextRow& row : metric_rows(f.workdir)) in_loop[row.at("step")] = row;
  const std::vector<TextRow> rows = metric_rows(f.workdir + "/eval");
  REQUIRE(rows.size() == 4);
  for (size_t i = 0; i < rows.size(); ++i) {
    INFO("row " << i);
    CHECK(rows[i].at("step") == std::to_string(5 * (i + 1)));
    for (const char* prefix : {"test/", "average/"}) {
      CHECK(part(rows[i], prefix).size() >= 2);
      CHECK(part(rows[i], prefix) == part(in_loop.at(rows[i].at("step")), prefix));
    }
    CHECK(rows[i].contains("only_job/loss"));
  }
  CHECK(exists(f.workdir + "/eval/report.html"));
  CHECK(exists(f.workdir + "/eval/tb"));

  const std::string before = read_text(f.workdir + "/eval/metrics.jsonl");
  CHECK(contains(f.evaluate().err, "Evaluated 0 checkpoints"));
  CHECK(read_text(f.workdir + "/eval/metrics.jsonl") == before);

  const Finished one = f.evaluate({"--ckpt", "10", "--json"});
  INFO(one.err);
  REQUIRE(one.code == 0);
  const auto json = nlohmann::json::parse(one.out);
  CHECK(json.at("step") == 10);
  CHECK(json.at("metrics").at("test/loss").get<double>() ==
        std::stod(in_loop.at("10").at("test/loss")));
  CHECK(read_text(f.workdir + "/eval/metrics.jsonl") == before);
}

TEST_CASE("bvtrain eval --follow evaluates beside the run until it has finished") {
  const EvaluatedRun f;
  Child train({"--config", f.config, "--workdir", f.workdir, "--set", "total_steps=60"},
              {{"BVTRAIN_SLEEP_AT", "eval.rank0:1+:0.3"}});
  REQUIRE(wait_for_file(f.workdir + "/ckpt/step-5"));
  const Finished followed = f.evaluate({"--follow"});
  INFO(followed.err);
  CHECK(train.wait().code == 0);
  REQUIRE(followed.code == 0);
  const std::vector<TextRow> rows = metric_rows(f.workdir + "/eval");
  CHECK(rows.back().at("step") == "60");
  // Those of every fifth step are kept; that of step 1 may be deleted before it is evaluated.
  CHECK(rows.size() - (rows.front().at("step") == "1" ? 1 : 0) == 12);
  CHECK(contains(followed.err, fmt::format("Evaluated {} checkpoints", rows.size())));
}

TEST_CASE("bvtrain eval passes over what it cannot read, and refuses what makes no sense") {
  const EvaluatedRun f;
  REQUIRE(f.train().code == 0);
  fs::resize_file(f.workdir + "/ckpt/step-10/state-00000-of-00001.safetensors", 1000);
  const Finished evaluated = f.evaluate();
  INFO(evaluated.err);
  CHECK(evaluated.code == 0);
  CHECK(contains(evaluated.err, "passed over: " + f.workdir + "/ckpt/step-10: error: "));
  CHECK(metric_rows(f.workdir + "/eval").size() == 3);

  CHECK(f.evaluate({"--ckpt", "7"}).code == 2);
  CHECK(f.evaluate({"--ckpt", "5", "--follow"}).err ==
        "bvtrain eval: error: --ckpt and --best write no rows; leave out --follow and --output\n");
  CHECK(f.evaluate({"--json"}).code == 2);
  const Finished unknown = f.evaluate({"--ckpt", "5", "--set", "evals.test.batch_sise=100"});
  CHECK(unknown.code == 2);
  CHECK(contains(unknown.err, "unknown key 'evals.test.batch_sise'"));
  // A data set of another size gives other numbers.
  const Finished other =
      f.evaluate({"--ckpt", "20", "--json", "--set", "evals.test.data.split=test[:50]"});
  INFO(other.err);
  CHECK(other.code == 0);
  // A file needs nothing but evaluators; the rows of others go elsewhere.
  write(f.dir / "more.yaml", R"(evals:
  half:
    type: classification
    data: {name: digits, split: "test[:50%]"}
    pp_fn: value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
    loss_name: softmax_xent
)");
  const Finished refused = f.evaluate({"--config", f.dir / "more.yaml", "--follow"});
  INFO(refused.err);
  CHECK(refused.code == 0);  // there is nothing new to evaluate
  const Finished elsewhere =
      f.evaluate({"--config", f.dir / "more.yaml", "--output", f.dir / "half"});
  INFO(elsewhere.err);
  CHECK(elsewhere.code == 0);
  CHECK(metric_rows(f.dir / "half").back().contains("half/loss"));
  fs::remove(f.workdir + "/eval/metrics.jsonl");
  CHECK(contains(f.evaluate({"--config", f.dir / "more.yaml"}).err,
                 f.workdir + "/eval: error: has rows of other evaluators; choose another folder"));
  CHECK(f.evaluate({"--config", f.dir / "no.yaml"}).code == 2);
  CHECK(contains(f.evaluate({"--output", f.workdir}).err, "is the folder of the run itself"));

  const Finished gone = run({"eval", "--workdir", f.dir / "gone"});
  CHECK(gone.code == 2);
  CHECK(gone.err == f.dir / "gone" + std::string(": error: no such folder\n"));
  CHECK(!exists(f.dir / "gone"));
}

}  // namespace bv::test
