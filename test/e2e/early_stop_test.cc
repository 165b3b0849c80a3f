// The key early_stop, with the real binary: a run that no longer improves ends, and so does its
// restart.
#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "test/e2e/best_run.h"
#include "test/support/clock.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

namespace fs = std::filesystem;

}  // namespace

TEST_CASE("ranks that were stopped during an evaluation agree on what is the best") {
  const BestRun f(best_config(digits_evaluator("zlate", {"log_steps: 2"}),
                              "early_stop: {metric: test/loss, patience_steps: 4}\n"));
  const std::vector<std::string> args =
      f.args({"--devices", "cpu:2", "--set", "lr=0.0", "--set", "sharding_strategy=zero1"});
  {
    // Stopped in the second evaluator of step 4, when early_stop is due.
    Child child(args, {{"BVTRAIN_SLEEP_AT", "eval.rank0:6:5"}});
    REQUIRE(wait_until([&] {  // the evaluator before it has ended
      return contains(read_text(f.workdir + "/log/rank-0.log"), "[4] test/");
    }));
    child.kill(SIGUSR1);
    const Finished stopped = child.wait();
    INFO(stopped.err);
    CHECK(stopped.code == 75);
  }
  const Finished again = run(args);
  INFO(again.err);
  CHECK(again.code == 0);
  CHECK(metric_rows(f.workdir).back().at("step") == "4");
  CHECK(contains(read_text(f.workdir + "/DONE"), "stopped early"));
}

TEST_CASE("a run that no longer improves stops early, and goes on with more patience") {
  // With a learning rate of 0 no value is better than that of step 0.
  const BestRun f(best_config(digits_evaluator("late", {"log_steps: 100"}),
                              "early_stop: {metric: test/loss, patience_steps: 5}\n"));
  const auto last_step = [&] { return std::stoi(metric_rows(f.workdir).back().at("step")); };
  // `keep`: the checkpoint is never deleted, like that of the last step.
  const auto stopped_at = [&](int step, bool keep) {
    CHECK(last_step() == step);
    CHECK(manifest_of(f.step(step)).at("keep") == keep);
    CHECK(metric_rows(f.workdir).back().contains("late/loss"));
    CHECK(fs::exists(f.step(step)));
    CHECK(best_of(f.best()).at("step") == 0);
    const std::string done = read_text(f.workdir + "/DONE");
    CHECK(contains(done, fmt::format("{}\nstopped early: test/loss has not improved on ", step)));
    CHECK(contains(done, " of step 0\n"));
  };
  {  // Killed while the last evaluator runs, when the checkpoint is committed.
    Child child(f.args({"--set", "lr=0.0"}), {{"BVTRAIN_SLEEP_AT", "eval.rank0:6:60"}});
    REQUIRE(wait_for_file(f.step(6)));
    child.kill(SIGKILL);
    CHECK(child.wait().code == 137);
  }
  REQUIRE(manifest_of(f.step(6)).at("meta").at("due_evals") == std::vector<std::string>{"late"});
  const auto saved = fs::last_write_time(f.step(6) + "/manifest.json");
  const Finished stopped = f.train_with({"lr=0.0"});
  INFO(stopped.err);
  REQUIRE(stopped.code == 0);
  stopped_at(6, true);
  // What had been done before the kill is not done again.
  CHECK(contains(stopped.err, "[6] late/"));
  CHECK_FALSE(contains(stopped.err, "[6] test/"));
  CHECK(metric_rows(f.workdir).back().contains("test/loss"));
  CHECK(fs::last_write_time(f.step(6) + "/manifest.json") == saved);
  const auto result = nlohmann::json::parse(read_text(f.workdir + "/result.json"));
  CHECK(result.at("status") == "finished");
  CHECK(contains(result.at("reason"), "stopped early: test/loss"));
  CHECK(contains(run({"compare", f.workdir}).out, "finished"));

  const std::string rows = read_text(f.workdir + "/metrics.jsonl");
  const Finished again = f.train_with({"lr=0.0"});
  INFO(again.err);
  CHECK(again.code == 0);
  CHECK(contains(again.err, " finished already, at step 6: it stopped early: test/loss has not "));
  CHECK(read_text(f.workdir + "/metrics.jsonl") == rows);
  const Finished replayed = run({"replay", "--workdir", f.workdir});
  CHECK(replayed.code == 2);
  CHECK(contains(
      replayed.err,
      ": error: its newest checkpoint belongs to the last step, 6: there is nothing to repeat\n"));

  CHECK(f.train_with({"lr=0.0", "early_stop.patience_steps=9"}).code == 0);
  stopped_at(10, true);  // also a step of ckpt_steps
  CHECK(f.train_with({"lr=0.0", "early_stop.patience_steps=13", "keep_ckpt_steps=0"}).code == 0);
  stopped_at(14, false);
}

TEST_CASE("a run that stops early when it is started again has ended") {
  const BestRun f;
  REQUIRE(f.train_with({"lr=0.0"}).code == 0);
  const std::string config = read_text(f.workdir + "/config.yaml");
  const std::vector<std::string> more = {"--accept-changes",
                                         "--set",
                                         "lr=0.0",
                                         "--set",
                                         "total_steps=24",
                                         "--set",
                                         "early_stop={metric: test/loss, patience_steps: 4}"};
  const Finished stopped = f.train(more, {{"BVTRAIN_SLEEP_AT", "start.files:1:2"}});
  INFO(stopped.err);
  CHECK(stopped.code == 0);
  CHECK(contains(stopped.err, "The run stopped early: test/loss has not improved on "));
  const std::string done = read_text(f.workdir + "/run.json");
  const Finished again = f.train(more);
  CHECK(again.code == 0);
  CHECK(contains(again.err, " finished already, at step 20: it stopped early: "));
  CHECK(read_text(f.workdir + "/run.json") == done);
  // run.json has been written twice, long after the start.
  CHECK(nlohmann::json::parse(done).at("started") ==
        nlohmann::json::parse(read_text(f.workdir + "/result.json")).at("started"));
  // Nothing was trained with the changes, so no file lists them.
  CHECK(nlohmann::json::parse(done).at("config_changes").empty());
  CHECK(read_text(f.workdir + "/config.yaml") == config);
  CHECK_FALSE(exists(f.workdir + "/config-until-step-20.yaml"));
  CHECK_FALSE(contains(read_text(f.workdir + "/report.html"), "from step 20: "));
}

}  // namespace bv::test
