// `best` with `by: eval`: bvtrain eval keeps the best checkpoint, during the run or after it.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/ckpt/best_checkpoint.h"
#include "test/support/digits_run.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

namespace fs = std::filesystem;

struct RunWithBest : DigitsRun {
  explicit RunWithBest(const std::string& keys = "keep_ckpt_steps: 5\n")
      : DigitsRun(digits_config("lr: 0.01\n" + keys +
                                "best: [{metric: job/loss, by: eval}, "
                                "{metric: test/loss, name: own}]\nevals:\n") +
                  digits_evaluator("job", {}, "test[:40]") +
                  digits_evaluator("test", {"log_steps: 5"})) {}
  Finished evaluate(const std::vector<std::string>& flags = {},
                    const Environment& environment = {}) const {
    std::vector<std::string> all = {"eval", "--workdir", workdir};
    all.insert(all.end(), flags.begin(), flags.end());
    return run(all, environment);
  }

  // ckpt/best must belong to the first row with the lowest loss.
  void check_best() const {
    int64_t step = -1;
    double lowest = 0;
    for (const TextRow& row : metric_rows(workdir + "/eval")) {
      const double loss = std::stod(row.at("job/loss"));
      if (step >= 0 && loss >= lowest) continue;
      step = std::stoll(row.at("step"));
      lowest = loss;
    }
    const auto found = read_best(best());
    REQUIRE(found);
    CHECK(found->metric == "job/loss");
    CHECK(found->step == step);
    CHECK(found->value == lowest);
    CHECK(run({"ckpt", "verify", best()}).code == 0);
    CHECK(!exists(workdir + "/eval/.held"));
  }
};

}  // namespace

TEST_CASE("bvtrain eval keeps the best checkpoint of its own metric, through kills") {
  const RunWithBest f;
  const Finished trained = f.train();
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  CHECK(!exists(f.best()));
  CHECK(exists(f.workdir + "/ckpt/best-own"));
  for (const char* point :
       {"ckpt.best_written:1", "evaluate.row:1", "ckpt.best_written:2", "evaluate.row:2"})
    f.evaluate({}, {{"BVTRAIN_CRASH_AT", point}});
  const Finished evaluated = f.evaluate();
  INFO(evaluated.err);
  CHECK(evaluated.code == 0);
  CHECK(contains(evaluated.err, f.best() + " will be the checkpoint with the lowest job/loss"));
  CHECK(metric_rows(f.workdir + "/eval").size() == 4);
  f.check_best();
  const Finished of_best = f.evaluate({"--best", "--json"});
  REQUIRE(of_best.code == 0);
  const auto best = nlohmann::json::parse(of_best.out);
  CHECK(best.at("step") == read_best(f.best())->step);
  CHECK(best.at("metrics").at("job/loss") == read_best(f.best())->value);

  // Removed by hand: it is there again after the next evaluation, even if no checkpoint is new.
  fs::remove_all(f.best());
  CHECK(contains(f.evaluate().err, "All 4 checkpoints have a row already"));
  f.check_best();
  fs::remove_all(f.best());
  REQUIRE(f.train({"--accept-changes", "--set", "total_steps=25"}).code == 0);
  CHECK(f.evaluate().code == 0);
  f.check_best();

  // Rows elsewhere leave it alone.
  fs::remove_all(f.best());
  const Finished elsewhere = f.evaluate({"--output", f.dir / "rows"});
  CHECK(contains(elsewhere.err, "so no best checkpoint is kept; leave out --output to keep it"));
  CHECK(!exists(f.best()));
}

TEST_CASE("bvtrain eval --follow keeps the best checkpoint although the run deletes it") {
  const RunWithBest f("");
  Child train(f.args({"--set", "total_steps=60"}), {{"BVTRAIN_SLEEP_AT", "eval.rank0:1+:0.3"}});
  REQUIRE(wait_for_file(f.workdir + "/ckpt/LAST"));
  const Finished followed = f.evaluate({"--follow"});
  INFO(followed.err);
  CHECK(train.wait().code == 0);
  REQUIRE(followed.code == 0);
  f.check_best();
}

TEST_CASE("the best checkpoint of bvtrain eval is moved aside when its step is trained again") {
  const RunWithBest f;
  REQUIRE(f.train().code == 0);
  REQUIRE(f.evaluate().code == 0);
  const auto before = read_best(f.best());
  REQUIRE(before);
  REQUIRE(before->step >= 10);  // the loss falls
  for (const int64_t step : {10, 15, 20}) fs::remove_all(f.step(step));
  fs::remove(f.workdir + "/DONE");
  REQUIRE(f.train({"--accept-changes", "--set", "lr=0.0001"}).code == 0);
  const Finished evaluated = f.evaluate();
  INFO(evaluated.err);
  CHECK(evaluated.code == 0);
  CHECK(contains(
      evaluated.err,
      fmt::format(
          "{} belongs to step {}, whose row is replaced; moved it to {}/ckpt/old-best-step-{}",
          f.best(), before->step, f.workdir, before->step)));
  f.check_best();

  // Now the run saves other steps, the first of them after one that it has discarded.
  for (const int64_t step : {10, 15, 20}) fs::remove_all(f.step(step));
  fs::remove(f.workdir + "/DONE");
  REQUIRE(f.train({"--accept-changes", "--set", "lr=0.00001", "--set", "ckpt_steps=0", "--set",
                   "keep_ckpt_steps=14", "--set", "total_steps=19", "--set",
                   "best={metric: job/loss, by: eval}"})
              .code == 0);
  const Finished others = f.evaluate();
  INFO(others.err);
  CHECK(others.code == 0);
  CHECK(
      contains(others.err,
               "metrics.jsonl: the run trained step 10 again, so its row is out of date; the rows "
               "from step 10 on are replaced\n"));
  std::vector<std::string> steps;
  for (const TextRow& row : metric_rows(f.workdir + "/eval")) steps.push_back(row.at("step"));
  CHECK(steps == std::vector<std::string>{"5", "14", "19"});
  f.check_best();
  CHECK(contains(f.evaluate().err, "All 3 checkpoints have a row already"));
}

TEST_CASE("bvtrain eval evaluates a best checkpoint with a name") {
  const RunWithBest f;
  REQUIRE(f.train().code == 0);
  const std::string own = f.workdir + ":best-own";
  const auto evaluate = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> all = {"eval", "--workdir", own};
    all.insert(all.end(), flags.begin(), flags.end());
    return run(all);
  };
  const Finished evaluated = evaluate({"--json"});
  INFO(evaluated.err);
  REQUIRE(evaluated.code == 0);
  const auto json = nlohmann::json::parse(evaluated.out);
  const auto best = read_best(f.workdir + "/ckpt/best-own");
  REQUIRE(best);
  CHECK(json.at("step") == best->step);
  CHECK(json.at("metrics").at("test/loss") == best->value);
  for (const char* flag : {"--follow", "--once"}) {
    const Finished rows = evaluate({flag});
    CHECK(rows.code == 2);
    CHECK(rows.err == "--workdir " + own +
                          ": error: names one checkpoint, which gets no row; leave out --follow, "
                          "--once, --output and --ckpt, or give the folder of the run\n");
  }
  CHECK(evaluate({"--best"}).err == "--best: error: --workdir names a best checkpoint already\n");
  CHECK(!exists(own));
  CHECK(contains(run({"eval", "--workdir", f.workdir + ":best-other"}).err,
                 "best-other: error: no such checkpoint; there is best-own\n"));
}

TEST_CASE("an evaluation that keeps no best checkpoint need not measure its metric") {
  const RunWithBest f;
  REQUIRE(f.train().code == 0);
  const auto code = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--set", "evals.job=null"});
    const Finished finished = f.evaluate(flags);
    UNSCOPED_INFO(finished.err);
    return finished.code;
  };
  CHECK(code({"--output", f.dir / "only_test"}) == 0);
  CHECK(metric_rows(f.dir / "only_test").back().contains("test/loss"));
  CHECK(code({"--ckpt", "20"}) == 0);
  const Finished kept = f.evaluate({"--set", "evals.job=null"});
  CHECK(kept.code == 2);
  CHECK(contains(kept.err, "no evaluator measures 'job/loss'"));
  CHECK(code({"--set", "best=null"}) == 0);
  CHECK(metric_rows(f.workdir + "/eval").size() == 4);
  CHECK(!exists(f.best()));
}

}  // namespace bv::test
