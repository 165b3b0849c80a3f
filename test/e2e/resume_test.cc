// A resumed run is bit-identical to one without a break: weights, optimizer state, averages,
// buffers and metric rows, after kill -9 and after signals. With the real binary.
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/formats/npz.h"
#include "test/support/digits_run.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

// Dropout, mixup, augmentation, averaged weights, an evaluator between checkpoints.
const char* const kResumedConfig = R"(
seed: 3
num_classes: 10
total_steps: 20
input:
  data: {name: digits, split: train}
  batch_size: 96
  pp: random_affine(shift=0.1, rotate=10)|value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
model_name: cnn
model: {widths: [16, 32], dense: 64, dropout: 0.3}
loss: softmax_xent
label_smoothing: 0.1
mixup: {p: 0.3}
optax_name: scale_by_adam
optax: {mu_dtype: bfloat16}
lr: 0.003
wd: 0.001
grad_clip_norm: 1.0
schedule: {decay_type: cosine, warmup_steps: 4}
ema: {decay: 0.9}
log_training_steps: 3
ckpt_steps: 5
evals:
  test:
    type: classification
    data: {name: digits, split: test}
    pp_fn: value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
    loss_name: softmax_xent
    log_steps: 4
    ema: true
)";

struct State {
  NamedTensors tensors;
  std::vector<TextRow> rows;
};

State final_state(const std::string& workdir) {
  NamedTensors copies;
  for (const auto& [name, value] : Checkpointer::load(workdir).tensors)
    copies.emplace(name, value.clone());
  return {copies, repeatable_rows(workdir)};
}

void check_same_results(const State& a, const State& b) {
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (const auto& [name, value] : a.tensors) {
    INFO(name);
    REQUIRE(b.tensors.count(name) == 1);
    const at::Tensor& other = b.tensors.at(name);
    REQUIRE(value.scalar_type() == other.scalar_type());
    REQUIRE(value.nbytes() == other.nbytes());
    CHECK(std::memcmp(value.const_data_ptr(), other.const_data_ptr(), value.nbytes()) == 0);
  }
  CHECK(a.rows == b.rows);
}

struct ResumedRuns {
  TempFolder dir;
  std::string config = dir / "c.yaml";
  ResumedRuns() { write(config, kResumedConfig); }
  std::vector<std::string> args(const std::string& workdir) const {
    return {"--config", config, "--workdir", dir / workdir};
  }
  const State& reference() {
    if (reference_.tensors.empty()) {
      const Finished whole = run(args("whole"));
      INFO(whole.err);
      REQUIRE(whole.code == 0);
      reference_ = final_state(dir / "whole");
    }
    return reference_;
  }

 private:
  State reference_;
};

}  // namespace

TEST_CASE("20 steps equal 10, kill -9, 10") {
  ResumedRuns f;
  // The process dies right after it commits the checkpoint of step 10 (the third, after 1 and 5),
  // before the evaluators and the row of that step.
  const Finished killed = run(f.args("cut"), {{"BVTRAIN_CRASH_AT", "ckpt.last_replaced:3"}});
  REQUIRE(killed.code == 137);
  const Finished resumed = run(f.args("cut"));
  INFO(resumed.err);
  REQUIRE(resumed.code == 0);
  check_same_results(f.reference(), final_state(f.dir / "cut"));
}

TEST_CASE("an evaluator due by the clock runs after a kill between checkpoint and evaluator") {
  ResumedRuns f;
  for (const std::string devices : {"cpu", "cpu:2"}) {
    INFO(devices);
    // The evaluator is due at every step but the first, and once before the first step: that of
    // step 10 is the tenth. It sleeps until the checkpoint of step 10 is committed and the process
    // dies.
    const auto args = [&](const std::string& name) {
      auto all = f.args(name + devices);
      for (const char* more : {"--set", "evals.test.log_seconds=1e-6", "--devices"})
        all.push_back(more);
      all.push_back(devices);
      return all;
    };
    const auto row = [&](const std::string& name) {
      for (const TextRow& row : repeatable_rows(f.dir / (name + devices)))
        if (row.at("step") == "10") return row;
      return TextRow();
    };
    const Finished whole = run(args("whole"));
    INFO(whole.err);
    REQUIRE(whole.code == 0);
    REQUIRE(row("whole").contains("test/loss"));
    const Finished killed = run(args("cut"), {{"BVTRAIN_CRASH_AT", "ckpt.last_replaced:3"},
                                              {"BVTRAIN_SLEEP_AT", "eval.rank0:10:60"}});
    REQUIRE(killed.code != 0);
    REQUIRE(row("cut").empty());
    const Finished resumed = run(args("cut"));
    INFO(resumed.err);
    REQUIRE(resumed.code == 0);
    CHECK(row("cut") == row("whole"));
  }
}

TEST_CASE("kill -9 at random moments, again and again, changes nothing") {
  ResumedRuns f;
  const auto start = std::chrono::steady_clock::now();
  const State& whole = f.reference();
  // The time that a run takes. If no kill came before the end, the next attempt halves it.
  double span = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::mt19937_64 random(12345);
  int kills = 0;
  while (kills == 0) {
    REQUIRE(span > 1e-3);
    std::filesystem::remove_all(f.dir / "cut");
    for (int attempt = 0; attempt < 60; ++attempt) {
      Child child(f.args("cut"));
      usleep(
          static_cast<useconds_t>(1e6 * std::uniform_real_distribution(0.2, 0.9)(random) * span));
      child.kill(SIGKILL);
      const Finished finished = child.wait();
      if (finished.code == 0) break;
      INFO(finished.err);
      REQUIRE(finished.code == 128 + SIGKILL);
      ++kills;
    }
    span /= 2;
  }
  const Finished last = run(f.args("cut"));
  INFO(last.err);
  REQUIRE(last.code == 0);
  INFO(kills << " kills");
  check_same_results(whole, final_state(f.dir / "cut"));
}

TEST_CASE("SIGTERM, SIGINT and SIGUSR1 leave a committed checkpoint and the documented code") {
  ResumedRuns f;
  for (const auto& [signal, code] : {std::pair{SIGTERM, 143}, {SIGINT, 130}, {SIGUSR1, 75}}) {
    const std::string name = "cut" + std::to_string(signal);
    auto args = f.args(name);
    args.insert(args.end(),
                {"--set", "total_steps=100000", "--set", "max_checkpoints_to_keep=1000"});
    Child child(args);
    const std::string first = f.dir / (name + "/ckpt/step-5");
    REQUIRE(wait_for_file(first));
    child.kill(signal);
    const Finished stopped = child.wait();
    INFO(stopped.err);
    CHECK(stopped.code == code);
    const Restored saved = Checkpointer::load(f.dir / name);
    CHECK(saved.step >= 5);
    CHECK(stopped.err.find("at step " + std::to_string(saved.step) + ";") != std::string::npos);
  }
}

TEST_CASE("a finished run ends at once with exit 0; with more total_steps it continues") {
  ResumedRuns f;
  const State& whole = f.reference();
  const Finished again = run(f.args("whole"));
  CHECK(again.code == 0);
  CHECK(again.err.find("finished already, at step 20") != std::string::npos);
  CHECK(repeatable_rows(f.dir / "whole") == whole.rows);
  auto more = f.args("whole");
  more.insert(more.end(), {"--set", "total_steps=24", "--accept-changes"});
  const Finished raised = run(more);
  INFO(raised.err);
  CHECK(raised.code == 0);
  CHECK(Checkpointer::load(f.dir / "whole").step == 24);
}

TEST_CASE("the number of loader threads changes nothing") {
  ResumedRuns f;
  for (const char* threads : {"1", "8"}) {
    auto args = f.args(std::string("t") + threads);
    args.insert(args.end(), {"--set", std::string("input.threads=") + threads});
    const Finished finished = run(args);
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    check_same_results(f.reference(), final_state(f.dir / (std::string("t") + threads)));
  }
}

TEST_CASE("a run whose folder has a name that is not UTF-8 trains and continues on two ranks") {
  DigitsRun f(digits_config("lr: 0.01\nsharding_strategy: zero1\n"));
  f.workdir = f.dir / "caf\xe9";
  for (const int steps : {5, 7}) {
    const Finished trained =
        f.train({"--devices", "cpu:2", "--set", fmt::format("total_steps={}", steps), "--set",
                 fmt::format("max_checkpoints_to_keep={}", steps), "--accept-changes"});
    INFO(trained.err);
    REQUIRE(trained.code == 0);
    CHECK(metric_rows(f.workdir).back().at("step") == std::to_string(steps));
  }
  const auto about = nlohmann::json::parse(read_text(f.workdir + "/run.json"));
  CHECK(about.at("start") == "workdir");
  CHECK(about.at("synthetic") == false);
  REQUIRE(about.at("config_changes").size() == 1);
  CHECK(about.at("config_changes")[0].at("changes").size() == 2);
  CHECK(about.at("config_changes")[0].at("harmless") ==
        std::vector<std::string>{"max_checkpoints_to_keep: 5 -> 7"});
  CHECK(contains(about.at("argv").dump(), "caf\xef\xbf\xbd"));  // U+FFFD
}

}  // namespace bv::test
