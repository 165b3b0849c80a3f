// Which values of a run count: their direction, the end of the run, rows of `bvtrain eval`; and
// which keys of a config tell runs apart.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>

#include "lib/compare/comparison_data.h"
#include "lib/compare/comparison_page.h"
#include "lib/compare/comparison_text.h"
#include "lib/util/text.h"
#include "test/compare/workdirs.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

using Texts = std::vector<std::string>;

// Replaces the rows of a run of Workdirs.
void write_rows(const Workdirs& runs, const std::string& name, const Texts& rows,
                const std::string& folder = "") {
  std::string text;
  for (const std::string& row : rows) text += "{" + row + "}\n";
  runs.dir.write(name + folder + "/metrics.jsonl", text);
}

std::string first_run(const Comparison& all) { return all.runs[all.groups[0].runs[0]].name; }

}  // namespace

TEST_CASE("a lower distance is better, and the best one is shown") {
  const Workdirs runs;
  for (const char* name : {"a", "b"}) {
    runs.run(name, fmt::format("lr: {}\n", name), {});
    const double last = name[0] == 'a' ? 0.279 : 0.08;
    write_rows(runs, name,
               {R"("step": 0, "val/kind=kl/avg": 2.29, "val/score": 2.29)",
                fmt::format(R"("step": 40, "val/kind=kl/avg": {0}, "val/score": {0})", last)});
  }
  const Comparison distance =
      runs.compared({.sort = "val/kind=kl/avg", .value = MetricValue::best});
  CHECK(sort_text(distance) == "val/kind=kl/avg: best value, lower is better");
  CHECK(first_run(distance) == "b");
  CHECK(distance.value_of(0, 0)->second == 0.279);
  CHECK(distance.warnings.empty());

  // If nobody says which values of a metric are better, the last ones are shown.
  const Comparison score = runs.compared({.sort = "val/score", .value = MetricValue::best});
  CHECK(sort_text(score) == "val/score: last value, the highest first");
  CHECK(first_run(score) == "a");
  CHECK(score.value_of(0, 0)->second == 0.279);
  CHECK(score.warnings ==
        Texts{"val/score: warning: its name does not say whether higher or lower values are "
              "better, so the highest come first, and the last values are shown, not the best; "
              "set it with --better"});
  CHECK(contains(comparison_json(score),
                 R"("sort": {"metric": "val/score", "value": "last", "better": null},)"));
  CHECK(runs.compared({.sort = "val/score"}).warnings.size() == 1);
  const Comparison lower = runs.compared({.sort = "val/score", .lower_is_better = true});
  CHECK(first_run(lower) == "b");
  CHECK(lower.warnings.empty());

  CompareOptions options = {.value = MetricValue::best, .metrics = {"val/score"}};
  const Comparison column = runs.compared(options);
  CHECK(sort_text(column) == "val/kind=kl/avg: best value, lower is better");
  CHECK(contains(comparison_text(column, 200), "val/kind=kl/avg  val/score (last)  "));
  // --better alone would show the worst distance of each run.
  CHECK(column.warnings ==
        Texts{"val/score: warning: its name does not say whether higher or lower values are "
              "better, so the last values are shown, not the best; to show the best, sort by it: "
              "--sort val/score with --better higher or lower"});
  options.lower_is_better = false;  // also of a further metric, if its name does not say it
  const Comparison higher = runs.compared(options);
  CHECK(higher.value_of(0, 1)->second == 2.29);
  CHECK(contains(comparison_text(higher, 200), "val/score  "));
  CHECK(higher.warnings.empty());
}

TEST_CASE("runs are not sorted by a metric of training data if any run has another one") {
  const Workdirs runs;
  runs.run("a", "lr: 1\n", {});
  runs.run("b", "lr: 2\n", {});
  write_rows(runs, "a", {R"("step": 40, "minitrain/prec@1": 0.9, "test/prec@1": 0.5)"});
  write_rows(runs, "b", {R"("step": 40, "minitrain/prec@1": 0.8)"});
  CHECK(main_metric(runs.records()) == "test/prec@1");
}

TEST_CASE("the value of an evaluator that a restart has removed is not that of the final weights") {
  const Workdirs runs;
  runs.run("kept", "lr: 1\n", {0.5, 0.6, 0.7, 0.8});
  runs.run("removed", "lr: 2\n", {});
  write_rows(runs, "removed",
             {R"("step": 20, "val/prec@1": 0.9, "training_loss": 1)",
              R"("step": 40, "test/prec@1": 0.7, "training_loss": 1)"});
  runs.run("early", "lr: 3\n", {}, /*finished=*/false);  // its training has gone on since
  write_rows(runs, "early", {R"("step": 20, "val/prec@1": 0.4)", R"("step": 30, "x/y": 1)"});
  const Comparison all = runs.compared();
  REQUIRE(all.metrics[0].name == "val/prec@1");
  CHECK(all.value_of(2, 0) == nullptr);
  CHECK(all.value_of(0, 0)->second == 0.4);
  CHECK(first_run(all) == "kept");
  CHECK(
      all.warnings ==
      Texts{"val/prec@1: warning: 1 finished run did not measure it at the end, so earlier values "
            "are left out (" +
            runs.dir.path() + "/removed: step 20 of 40)"});
  const Comparison best = runs.compared({.value = MetricValue::best});
  CHECK(best.value_of(2, 0)->second == 0.9);
  CHECK(best.warnings.empty());
  // An evaluator that all runs have dropped does not sort them.
  write_rows(runs, "kept",
             {R"("step": 20, "val/prec@1": 0.9)", R"("step": 40, "test/prec@1": 0.7)"});
  write_rows(runs, "early", {R"("step": 20, "training_loss": 1)"});
  CHECK(runs.compared().metrics[0].name == "test/prec@1");
}

TEST_CASE("equal values have that mean and no deviation, in whatever order they are") {
  for (int k = 0; k <= 360; ++k) {
    const double value = k / 360.0;
    for (const size_t n : {2, 3, 6, 7, 10}) {
      const Spread spread = spread_of(std::vector<double>(n, value));
      CHECK(spread.mean == value);
      CHECK(spread.deviation == 0);
    }
  }
  const Spread a = spread_of({0.1, 0.7, 0.2}), b = spread_of({0.2, 0.1, 0.7});
  CHECK(a.mean == b.mean);
  CHECK(a.deviation == b.deviation);
}

TEST_CASE("infinite values give no NaN with a sign") {
  CHECK(spread_of({INFINITY, 1}).mean == INFINITY);
  for (const std::vector<double>& values :
       {std::vector<double>{INFINITY, 1}, std::vector<double>{INFINITY, -INFINITY},
        std::vector<double>{-INFINITY, -INFINITY}}) {
    const Spread spread = spread_of(values);
    CHECK(std::isnan(spread.deviation));
    CHECK_FALSE(std::signbit(spread.deviation));
    if (std::isnan(spread.mean)) CHECK_FALSE(std::signbit(spread.mean));
  }
  const Workdirs runs;
  for (const int seed : {0, 1}) {
    const std::string name = fmt::format("s{}", seed);
    runs.run(name, fmt::format("seed: {}\n", seed), {});
    write_rows(runs, name, {R"("step": 40, "val/loss": "inf")"});
  }
  const std::string text = comparison_text(runs.compared(), 200);
  CHECK(contains(text, "inf ± nan"));
}

TEST_CASE("a run beside an unfinished one with its seed gets no warning: only one counts") {
  const Workdirs runs;
  runs.run("a", "seed: 0\n", {0.5});
  runs.run("b", "seed: 0\n", {0.4}, /*finished=*/false);
  CHECK(runs.compared().warnings.empty());
  runs.run("c", "seed: 0\n", {0.5});
  CHECK(runs.compared().warnings.size() == 1);
  // Without a finished run all that have measured something count.
  const Workdirs unfinished;
  for (const char* name : {"a", "b"}) unfinished.run(name, "seed: 0\n", {0.5}, false);
  unfinished.run("c", "seed: 0\n", {}, /*finished=*/false);
  CHECK(unfinished.compared().warnings.size() == 1);
}

TEST_CASE("metrics that only `bvtrain eval` has measured count too") {
  const Workdirs runs;
  runs.run("a", "lr: 1\n", {});
  runs.run("b", "lr: 2\n", {});
  for (const char* name : {"a", "b"}) {
    write_rows(runs, name, {R"("step": 40, "training_loss": 1, "val/loss": 2)"});
    runs.dir.write(std::string(name) + "/eval/evaluated.json", "{}");
  }
  write_rows(runs, "a",
             {R"("step": 20, "val/prec@1": 0.9, "val/loss": 7, "z/secs/eval/val": 1)",
              R"("step": 40, "val/prec@1": 0.8, "val/loss": 7, "z/secs/eval/val": 1)"},
             "/eval");
  write_rows(runs, "b", {R"("step": 20, "val/prec@1": 0.9)"}, "/eval");  // the end is still to come
  const Comparison all = runs.compared({.sort = "val/prec@1", .metrics = {"val/loss"}});
  CHECK(all.value_of(0, 0)->second == 0.8);
  CHECK(all.value_of(0, 1)->second == 2);  // what the run has measured itself
  CHECK(all.value_of(1, 0) == nullptr);
  CHECK(all.runs[0].metrics.rows == 1);
  CHECK_FALSE(all.runs[0].metrics.series.contains("z/secs/eval/val"));
  REQUIRE(all.warnings.size() == 1);
  CHECK(contains(all.warnings[0], "/b: step 20 of 40)"));

  // A restart has removed the evaluator, and `bvtrain eval` has measured the end.
  write_rows(runs, "a", {R"("step": 20, "val/prec@1": 0.9)", R"("step": 40, "training_loss": 1)"});
  CHECK(runs.compared({.sort = "val/prec@1"}).value_of(0, 0)->second == 0.8);

  // Rows that cannot be used do not hide the run.
  const std::string rows = runs.dir / "a/eval/metrics.jsonl";
  const auto warning = [&] {
    Texts lines;
    CHECK(runs.records(&lines).size() == 2);
    return join(lines, "\n");
  };
  runs.dir.write("a/run.json", R"({"first_started": "2026-11-30 05:23:38"})");
  runs.dir.write("a/eval/evaluated.json",
                 R"({"run": {"workdir": "/w", "first_started": "2026-11-29 05:22:31"}})");
  CHECK(warning() ==
        rows + ": warning: these rows are those of an earlier run in the workdir; left out");
  std::filesystem::remove(rows);
  std::filesystem::create_directory(rows);
  CHECK(warning() == rows + ": warning: left out: is a folder");

  Texts warnings;
  CHECK(find_runs({runs.dir / "a/eval"}, warnings).empty());
  CHECK(warnings == Texts{runs.dir / "a/eval: warning: holds rows of `bvtrain eval`, not a run; "
                                     "give the run's workdir; left out"});
}

TEST_CASE("defaults that follow from another key are no columns") {
  const Workdirs runs;
  for (const int size : {32, 64, 128}) {
    runs.run(fmt::format("b{}", size),
             fmt::format("batch_size_eval: {0}  # default\ninput:\n  batch_size: {0}  # c.yaml:3\n"
                         "evals:\n  test:\n    batch_size: {0}  # default\n",
                         size),
             {0.5});
  }
  CHECK(runs.compared().keys == Texts{"input.batch_size"});
  // Nothing else tells these runs apart.
  const Workdirs versions;
  versions.run("old", "lr: 1  # default\n", {0.5});
  versions.run("new", "lr: 2  # default\nnovel: 1  # default\n", {0.5});
  CHECK(versions.compared().keys == Texts{"lr"});
}

TEST_CASE("keys that change no result do not separate runs") {
  const std::string frequent =
      "ckpt_steps: 5\nkeep_ckpt_epochs: 1\nlog_training_steps: 3\nlog_images_percent: 0.5\n"
      "max_checkpoints_to_keep: 4\nperiodic_action_growth_ratios: [2]\nprofile: {steps: 3}\n"
      "best: [{metric: val/prec@1}]\ninput: {prefetch: 4, threads: 2, cache: {in: memory}}\n"
      "evals: {val: {prefetch: 2, threads: 2}}\n";
  const Workdirs runs;
  runs.run("a", "seed: 0\nlr: 1\nckpt_steps: 10\n", {0.5});
  runs.run("b", "seed: 1\nlr: 1\n" + frequent, {0.5});
  CHECK(runs.compared().groups.size() == 1);
  runs.run("c", "seed: 2\nlr: 2\n" + frequent, {0.5});
  CHECK(runs.compared().keys == Texts{"lr"});
  // More measurements have other extremes, and `early_stop` ends the run.
  const Workdirs others;
  others.run("a", "seed: 0\nevals: {val: {log_steps: 5}}\n", {0.5});
  others.run("b", "seed: 1\nevals: {val: {log_steps: 10}}\nearly_stop: {patience_steps: 3}\n",
             {0.5});
  CHECK(others.compared().keys == Texts{"early_stop.patience_steps", "evals.val.log_steps"});
  // A rollback returns to the last checkpoint.
  const Workdirs rollbacks;
  rollbacks.run("a", "seed: 0\nnan: rollback\nckpt_steps: 5\nlog_training_steps: 5\n", {0.5});
  rollbacks.run("b", "seed: 1\nnan: rollback\nckpt_steps: 10\n", {0.5});
  CHECK(rollbacks.compared().keys == Texts{"ckpt_steps"});
}

TEST_CASE("a chart cuts off the losses of a run that has exploded") {
  const auto page = [](double last) {
    const Workdirs runs;
    for (const double loss : {1.5, 2.0, last}) {
      const std::string name = fmt::format("r{}", loss);
      runs.run(name, fmt::format("lr: {}\n", loss), {});
      write_rows(runs, name,
                 {fmt::format(R"("step": 20, "training_loss": {}, "val/prec@1": 1)", loss),
                  fmt::format(R"("step": 40, "training_loss": {}, "val/prec@1": 1)", loss / 2)});
    }
    return comparison_page(runs.compared());
  };
  const std::string exploded = page(1e20);
  CHECK(count(exploded, "values above 15 are at the upper edge") == 1);
  CHECK_FALSE(contains(exploded, ">1e+20</text>"));
  CHECK_FALSE(contains(page(100), "upper edge"));
}

}  // namespace bv::test
