// Groups, their means and deviations, the order of the table, and the keys that differ.
#include "lib/compare/comparison.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "lib/compare/comparison_data.h"
#include "lib/compare/comparison_page.h"
#include "lib/compare/comparison_text.h"
#include "lib/compare/config_columns.h"
#include "lib/compare/run_config.h"
#include "lib/config/load_config.h"
#include "test/compare/workdirs.h"
#include "test/report/page_checks.h"
#include "test/support/error.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

std::vector<std::string> order(const Comparison& all) {
  std::vector<std::string> names;
  for (const RunGroup& group : all.groups) names.push_back(all.runs[group.runs[0]].name);
  return names;
}

std::vector<std::string> texts(const Comparison& all, const std::string& key, size_t longest = 28) {
  for (const ConfigColumn& column : config_columns(all, longest))
    if (column.key == key) return column.texts;
  return {};
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("mean and standard deviation of a sample") {
  // (2 + 4 + 4 + 4 + 5 + 5 + 7 + 9) / 8 = 5; the squares of the differences sum to 32; 32 / 7.
  const Spread spread = spread_of({2, 4, 4, 4, 5, 5, 7, 9});
  CHECK(spread.n == 8);
  CHECK(spread.mean == Approx(5));
  CHECK(spread.deviation == Approx(std::sqrt(32.0 / 7)));
  CHECK(spread_of({3}).deviation == 0);
  CHECK(spread_of({}).n == 0);
  CHECK(std::isnan(spread_of({1, NAN}).mean));
}

TEST_CASE("runs that differ in their seed only are a group") {
  const Workdirs runs;
  runs.run("a0", "seed: 0\nlr: 0.001\nmodel: {width: 8}\n", {0.5, 0.7});
  runs.run("a1", "seed: 1\nlr: 1e-3\nmodel: {width: 8}\n", {0.9, 0.8});
  runs.run("a10", "seed: 10\nlr: 0.001\nmodel: {width: 8, depth: null}\n", {0.1, 0.9});
  runs.run("b", "seed: 0\nlr: 0.001\nmodel: {width: 16}\n", {0.5, 0.85});
  const Comparison all = runs.compared();
  CHECK(all.keys == Names{"model.width"});
  REQUIRE(all.groups.size() == 2);
  CHECK(order(all) == Names{"b", "a0"});
  const RunGroup& group = all.groups[1];
  CHECK(group.runs.size() == 3);
  CHECK(all.runs[group.runs[2]].seed == "10");  // in the order of numbers
  CHECK(group.spreads[0].mean == Approx(0.8));
  CHECK(group.spreads[0].deviation == Approx(0.1));
  // The best values of a are 0.7, 0.9 and 0.9.
  const Comparison best = runs.compared({.value = MetricValue::best});
  CHECK(order(best) == Names{"b", "a0"});
  CHECK(best.groups[1].spreads[0].mean == Approx(2.5 / 3));
}

TEST_CASE("threads that the machine chose do not separate runs, threads of the config do") {
  const Workdirs runs;
  const auto machine = [](int cores) {
    return fmt::format(
        "compute_threads: {0}  # default\ninput:\n  threads: {0}  # default\nevals:\n  val:\n"
        "    threads: {0}  # default\n",
        cores);
  };
  runs.run("a", "seed: 0\n" + machine(2), {0.5});
  runs.run("b", "seed: 1\n" + machine(8), {0.6});
  CHECK(runs.compared().groups.size() == 1);
  std::string given = machine(8);
  given.replace(given.find("default"), 7, "c.yaml:3");
  runs.run("c", "seed: 2\n" + given, {0.6});
  CHECK(runs.compared().keys == Names{"compute_threads"});
  // A run that was started from the config.yaml of another one gives its numbers.
  std::string stated = machine(2);
  for (size_t at = 0; (at = stated.find("# default", at)) != std::string::npos;)
    stated.replace(at, 9, "# a/config.yaml:3");
  const Workdirs again;
  again.run("a", "seed: 0\n" + machine(2), {0.5});
  again.run("b", "seed: 1\n" + stated, {0.6});
  CHECK(again.compared().groups.size() == 1);
}

TEST_CASE("defaults that only some optimizers have are no columns") {
  const Workdirs runs;
  runs.run("a", "optax_name: sgd\noptax:\n  nesterov: false  # default\n", {0.5});
  runs.run("b", "optax_name: adam\noptax:\n  b1: 0.9  # default\n  b2: 0.99  # c.yaml:4\n", {0.6});
  CHECK(runs.compared().keys == Names{"optax.b2", "optax_name"});
  // A default that only a newer version has is all that separates these groups.
  const Workdirs versions;
  versions.run("old", "seed: 0\n", {0.5});
  versions.run("new", "seed: 1\nnovel: 2  # default\n", {0.6});
  CHECK(versions.compared().keys == Names{"novel"});
}

TEST_CASE("the direction of a metric decides which runs come first") {
  const Workdirs runs;
  runs.run("low", "lr: 1\n", {0.2});
  runs.run("high", "lr: 2\n", {0.9});
  runs.run("nan", "lr: 3\n", {0.5});
  runs.dir.write("nan/metrics.jsonl",
                 "{\"step\": 40, \"val/prec@1\": \"nan\", \"training_loss\": 1.0}\n");
  const Comparison up = runs.compared();
  CHECK(sort_text(up) == "val/prec@1: last value, higher is better");
  CHECK(order(up) == Names{"high", "low", "nan"});
  const Comparison down = runs.compared({.sort = "training_loss"});
  CHECK(sort_text(down) == "training_loss: last value, lower is better");
  CHECK(order(down) == Names{"nan", "high", "low"});  // 1.0, 1.1, 1.8
  CHECK(order(runs.compared({.lower_is_better = true})) == Names{"low", "high", "nan"});
  CHECK(lower_is_better("val/ece"));
  CHECK(lower_is_better("val/loss"));
  CHECK_FALSE(lower_is_better("loss_free/prec@1"));  // an evaluator's name says nothing
  CHECK(error_of([&] { runs.compared({.sort = "val/prec"}); }) ==
        "--sort val/prec: error: no run has this metric (did you mean 'val/prec@1'?); known: "
        "progress, training_loss, val/prec@1");
}

TEST_CASE("an unfinished run counts in no mean of finished ones, and stands behind them") {
  const Workdirs runs;
  runs.run("a0", "seed: 0\nlr: 1\n", {0.5, 0.6, 0.7, 0.8});
  runs.run("a1", "seed: 1\nlr: 1\n", {0.99}, /*finished=*/false);
  runs.run("b", "seed: 0\nlr: 2\n", {0.95, 0.97}, /*finished=*/false);
  runs.run("c", "seed: 0\nlr: 3\n", {0.1, 0.2}, /*finished=*/false);
  runs.dir.write("c/FAILED", "4\n");
  const Comparison all = runs.compared();
  CHECK(order(all) == Names{"a0", "b", "c"});
  CHECK(all.groups[0].spreads[0].mean == Approx(0.8));
  CHECK(all.groups[0].spreads[0].n == 1);
  CHECK(all.groups[1].provisional);
  CHECK(comparison_text(all, 200) ==
        R"(4 runs in 3 groups, by val/prec@1: last value, higher is better
The runs of a group differ only in the seed; it shows mean ± standard deviation (n - 1) of its n finished runs

lr  seed  val/prec@1  n  status                       run
 1           0.8000   1  1 finished, 1 unfinished
       0     0.8000      finished                     a0
       1     0.9900*     unfinished at step 10 of 40  a1
 2     0     0.9700*     unfinished at step 20 of 40  b
 3     0     0.2000*     diverged at step 20 of 40    c

* marks an unfinished run; it does not count in the mean of finished runs
)");
}

TEST_CASE("a run that was made longer after its end is unfinished") {
  const Workdirs runs;
  runs.run("a", "lr: 1\n", {0.5, 0.6, 0.7, 0.8});
  runs.dir.write("a/config.yaml", "total_steps: 80\n");
  CHECK(runs.compared().runs[0].status.text() == "unfinished at step 40 of 80");
  // The length in epochs: 40 steps of 5 examples are 4 epochs of 50.
  runs.dir.write("a/config.yaml", "total_epochs: 6\ninput: {batch_size: 5}\n");
  runs.dir.write("a/metrics.jsonl", "{\"step\": 40, \"epoch\": 4.0, \"progress\": 1.0}\n");
  CHECK(runs.compared().runs[0].status.text() == "unfinished at step 40 of 60");
  runs.dir.write("a/config.yaml", "total_epochs: 4\ninput: {batch_size: 5}\n");
  CHECK(runs.compared().runs[0].status.text() == "finished");
  std::filesystem::remove(runs.dir / "a/DONE");
  runs.dir.write("a/FAILED", "5\n");
  runs.dir.make("a/ckpt/step-41");
  CHECK(runs.compared().runs[0].status.text() == "failed with code 5 at step 41 of 40");
}

TEST_CASE("a DONE of a step that the run has not come to does not count") {
  const Workdirs runs;
  runs.run("a", "lr: 1\n", {0.5, 0.6}, /*finished=*/false);
  runs.dir.write("a/DONE", "40\n");
  CHECK(runs.compared().runs[0].status.text() == "finished");  // it saves and logs nothing more
  runs.dir.make("a/ckpt/step-20");
  CHECK(runs.compared().runs[0].status.text() == "unfinished at step 20 of 40");
}

TEST_CASE("result.json tells how a run ended, but not that it has finished") {
  const Workdirs runs;
  runs.run("a", "lr: 1\n", {0.5}, /*finished=*/false);
  const auto status = [&](const std::string& result) {
    runs.dir.write("a/result.json", result);
    return runs.compared().runs[0].status.text();
  };
  CHECK(status(R"({"status": "diverged", "exit_code": 4})") == "diverged at step 10 of 40");
  CHECK(status(R"({"exit_code": 6})") == "failed with code 6 at step 10 of 40");
  for (const char* other : {R"({"exit_code": 143})", R"({"exit_code": 0})",
                            "{\"exit_code\": ", "[]", R"({"exit_code": "4"})"})
    CHECK(status(other) == "unfinished at step 10 of 40");
  runs.dir.write("a/FAILED", "4\n");  // of an earlier start
  CHECK(status(R"({"exit_code": 75})") == "unfinished at step 10 of 40");
}

TEST_CASE("the keys that differ, in sections, lists and preprocessing") {
  const Workdirs runs;
  const std::string rest = "|value_range(-1, 1)|onehot(10, key=\"label\")'\n";
  runs.run("a", "schedule:\n  - [head, {warmup: 1}]\ninput:\n  pp: 'decode|resize(32)" + rest, {1});
  runs.run("b", "schedule:\n  - [head, {warmup: 2}]\ninput:\n  pp: 'decode|resize(64)|flip" + rest,
           {0.9});
  runs.run("c", "wd: 0.1\nmodel: {widths: [32, 64]}\ninput:\n  pp: 'decode" + rest, {0.8});
  const Comparison all = runs.compared();
  CHECK(all.keys ==
        Names{"input.pp", "model.widths", "schedule[0][0]", "schedule[0][1].warmup", "wd"});
  CHECK(texts(all, "input.pp") ==
        Names{"...|resize(32)|...", "...|resize(64)|flip|...", "...|..."});
  CHECK(texts(all, "model.widths") == Names{"-", "-", "[32, 64]"});
  CHECK(texts(all, "schedule[0][1].warmup") == Names{"1", "2", "-"});
  // Still too long: letters, which the legend explains.
  CHECK(texts(all, "input.pp", 10) == Names{"[A]", "[B]", "...|..."});
  const std::string text = comparison_text(all, 60);
  CHECK(contains(text,
                 "\n[1] input.pp=decode|resize(32)|value_range(-1, 1)|onehot(10, "
                 "key=\"label\") model.widths=- "));
}

TEST_CASE("a text that looks like another value keeps its quotes") {
  CHECK(value_text("\"0.1\"") == "\"0.1\"");
  CHECK(value_text("\"-\"") == "\"-\"");
  CHECK(value_text("\"vit\"") == "vit");
  CHECK(value_text("") == "-");
  CHECK(value_text("[40,null]") == "[40, null]");
}

TEST_CASE("the main metric is a validation accuracy, else the training loss") {
  const auto main_of = [](const std::string& row) {
    const Workdirs runs;
    runs.run("a", "lr: 1\n", {});
    runs.dir.write("a/metrics.jsonl", row + "\n");
    return main_metric(runs.records());
  };
  CHECK(main_of(R"({"step": 1, "test/prec@1": 1, "val/prec@1": 1, "val/loss": 1, "z/a": 3})") ==
        "val/prec@1");
  CHECK(main_of(R"({"step": 1, "test/prec@1": 1, "test/confidence": 1})") == "test/prec@1");
  CHECK(main_of(R"({"step": 1, "val/loss": 1, "training_loss": 1})") == "val/loss");
  CHECK(main_of(R"({"step": 1, "training_loss": 1, "epoch": 1})") == "training_loss");
  CHECK(main_of("") == "");
}

TEST_CASE(
    "a run with generated data or with values that a restart replaced is no part of a group") {
  const Workdirs runs;
  for (const char* name : {"a0", "a1", "changed", "synthetic"})
    runs.run(name, fmt::format("seed: {}\nlr: 0.1\n", name == std::string("a0") ? 0 : 1),
             {0.9, 0.8});
  runs.dir.write("changed/run.json", R"({"config_changes": [{"step": 10, "evaluators": ["val"],
      "changes": ["lr: 0.3 -> 0.1", "evals.val.data: 3 examples -> 4 examples"]}]})");
  runs.dir.write("synthetic/run.json", R"({"argv": ["bvtrain", "--synthetic"]})");
  runs.dir.write("a1/run.json", R"({"argv": [1]})");  // damaged, which does not matter here
  CompareOptions best;
  best.value = MetricValue::best;
  const Comparison all = runs.compared(best);
  CHECK(all.groups.size() == 3);
  CHECK(all.keys == Names{"--synthetic", "evals.val.data until step 10", "lr until step 10"});
  CHECK(texts(all, "lr until step 10") == Names{"-", "-", "0.3"});
  CHECK(order(all).back() == "changed");  // 0.9 was measured with other data
  CHECK(all.groups.back().spreads[0].mean == Approx(0.8));
}

TEST_CASE("runs of different versions are told") {
  const Workdirs runs;
  for (const char* name : {"a", "b", "c", "old"})
    runs.run(name, fmt::format("seed: \"{}\"\n", name), {0.5});
  const auto write = [&](const std::string& name, const std::string& commit) {
    runs.dir.write(name + "/run.json",
                   fmt::format(R"({{"version": "0.1.0", "commit": "{}"}})", commit));
  };
  write("a", "aaaa");
  write("b", "aaaa");
  write("c", "aaaa");
  CHECK(runs.compared().warnings.empty());  // the version of `old` is not known
  write("c", "cccc");
  CHECK(runs.compared().warnings ==
        Names{"the runs are of different versions of bvtrain, which may have other defaults "
              "or measure differently: 2 runs 0.1.0 (aaaa), 1 run 0.1.0 (cccc)"});
  runs.dir.write("c/run.json", R"({"version": 1, "commit": [2]})");
  CHECK(runs.compared().warnings.empty());
}

TEST_CASE("small values keep their digits beside a run that exploded") {
  const auto text = [](const std::vector<double>& values) {
    const Workdirs runs;
    for (size_t i = 0; i < values.size(); ++i) {
      const bool last = i + 1 == values.size();
      runs.run(fmt::format("r{}", i), fmt::format("seed: {}\nlr: {}\n", i, last), {0.5});
      runs.dir.write(fmt::format("r{}/metrics.jsonl", i),
                     fmt::format("{{\"step\": 40, \"val/loss\": {}}}\n", values[i]));
    }
    return comparison_text(runs.compared({.sort = "val/loss"}), 200);
  };
  const std::string exploded = text({0.01961, 0.02041, 812345.5});
  CHECK(contains(exploded, "0.02001 ± 0.00057"));
  CHECK(contains(exploded, "812345.50000 "));
  CHECK(contains(text({0.5, 0.50003, 0.9}), "0.5000 ± 2.1e-05"));
  CHECK(contains(text({0.5, 0.5, 0.9}), "0.5000 ± 0.0000"));
  CHECK(contains(text({1.96e-5, 2.04e-5, 0.5}), "2.000e-05 ± 5.657e-07"));
}

TEST_CASE("the same seed twice in a group is told") {
  const Workdirs runs;
  runs.run("a", "seed: 0\n", {0.5});
  runs.run("b", "seed: 0\n", {0.5});
  const Comparison all = runs.compared();
  REQUIRE(all.warnings.size() == 1);
  CHECK(all.warnings[0] == runs.dir / "b: warning: has the same config and seed as " +
                               (runs.dir / "a; the group's n and standard deviation count both"));
}

TEST_CASE("the runs of a cross-validation are a group") {
  const Workdirs runs;
  const auto config = [](int fold, double lr) {
    return fmt::format(
        "seed: 0\nlr: {0}\ninput: {{data: {{split: 'train[not fold {1}/10]'}}}}\n"
        "evals: {{val: {{data: {{split: 'train[fold {1}/10]'}}}}}}\n",
        lr, fold);
  };
  runs.run("x", config(10, 0.1), {0.5});
  runs.run("y", config(2, 0.1), {0.7});
  runs.run("z", config(2, 0.2), {0.8});
  const Comparison all = runs.compared();
  CHECK(all.warnings.empty());
  CHECK(all.keys == Names{"lr"});
  REQUIRE(all.groups.size() == 2);
  CHECK(all.groups[1].spreads[0].mean == Approx(0.6));
  CHECK(comparison_text(all, 200) ==
        R"(3 runs in 2 groups, by val/prec@1: last value, higher is better
The runs of a group differ only in the seed or fold; it shows mean ± standard deviation (n - 1) of its n finished runs

 lr  seed   fold       val/prec@1  n  status      run
0.2     0   2/10  0.8000              finished    z
0.1               0.6000 ± 0.1414  2  2 finished
        0   2/10  0.7000              finished    y
        0  10/10  0.5000              finished    x
)");
  CHECK(contains(comparison_csv(all), "/y,0.1,0,2/10,finished,"));
  CHECK(contains(comparison_json(all), "\"fold\": \"10/10\","));
  CHECK(contains(comparison_page(all), "<td class=\"number\">10/10</td>"));

  runs.run("again", config(2, 0.2), {0.9});
  const std::vector<std::string> warnings = runs.compared().warnings;
  REQUIRE(warnings.size() == 1);
  CHECK(contains(warnings[0], "z: warning: has the same config, fold and seed as "));
}

TEST_CASE("splits of different folds in one config are compared as they are") {
  FlatConfig config = {{"input.data.split", "\"train[fold 1/5]\""},
                       {"evals.val.data.split", "\"train[fold 2/5]\""}};
  const FlatConfig before = config;
  CHECK(take_fold(config).empty());
  CHECK(config == before);
  config["evals.val.data.split"] = "\"train[not fold 1/5]+extra\"";
  CHECK(take_fold(config) == "1/5");
  CHECK(config == FlatConfig{{"input.data.split", "\"train[fold */5]\""},
                             {"evals.val.data.split", "\"train[not fold */5]+extra\""}});
}

TEST_CASE("a number has one text in a flat config, however it was written") {
  const auto flat = [](const std::string& text) {
    return flat_config(parse_config(text, "config.yaml"));
  };
  CHECK(flat("lr: 1.0\nl: [1e3, 0.50]\nm: [{n: 2.0}]\n") ==
        flat("lr: 1\nl: [1000, 0.5]\nm: [{n: 2}]\n"));
}

TEST_CASE("a comparison as CSV and JSON") {
  const Workdirs runs;
  runs.run("a", "seed: 0\npp: 'a(1, 2)'\n", {0.5});
  runs.run("b", "seed: 1\npp: 'a(1, 2)'\n", {0.25});
  runs.run("c", "seed: 1\n", {}, /*finished=*/false);
  const Comparison all = runs.compared();
  CHECK(
      comparison_csv(all) ==
      "rank,workdir,pp,seed,fold,status,step,total_steps,val/prec@1,val/prec@1 mean,val/prec@1 std,"
      "val/prec@1 n\n1," +
          runs.dir.path() + "/a,\"a(1, 2)\",0,,finished,40,40,0.5,0.375," +
          fmt::format("{}", spread_of({0.5, 0.25}).deviation) + ",2\n1," + runs.dir.path() +
          "/b,\"a(1, 2)\",1,,finished,40,40,0.25,0.375," +
          fmt::format("{}", spread_of({0.5, 0.25}).deviation) + ",2\n2," + runs.dir.path() +
          "/c,,1,,unfinished,0,40,,,,0\n");
  const std::string json = comparison_json(all);
  CHECK(contains(json,
                 "\"sort\": {\"metric\": \"val/prec@1\", \"value\": \"last\", \"better\": "
                 "\"higher\"},"));
  CHECK(contains(json, "\"config\": {\"pp\": \"a(1, 2)\"},\n      \"finished\": 2,"));
  CHECK(contains(json, "\"val/prec@1\": {\"last\": 0.5, \"last_step\": 10, \"min\": 0.5, "));
  CHECK(contains(json, "\"status\": \"unfinished\",\n"));
}

TEST_CASE("the mean curve of a group is that of its finished runs") {
  const Workdirs runs;
  runs.run("a", "seed: 0\n", {0.1, 0.2, 0.3, 0.4});
  runs.run("b", "seed: 1\n", {0.2, 0.3, 0.4, 0.5});
  runs.run("c", "seed: 2\n", {0.3}, /*finished=*/false);
  runs.dir.write("c/metrics.jsonl",
                 "{\"step\": 10, \"training_loss\": 1.7, \"val/prec@1\": 0.3, \"val/ece\": 0.2}\n");
  runs.run("d", "seed: 3\n", {}, /*finished=*/false);
  const std::string page = comparison_page(runs.compared());
  const std::vector<size_t> points = path_points(page);
  CHECK(count(page, "role=\"img\"") == 3);
  // In each of the two charts of what finished runs have measured: a, b and their mean.
  CHECK(std::count(points.begin(), points.end(), 4) == 6);
  CHECK(count(page, ">#1</text>") == 2);  // the legend of the third chart names no mean
  CHECK(contains(page, "the mean of its finished runs"));
}

TEST_CASE("the mean curve of runs that measured at different steps goes through all of them") {
  const Workdirs runs;
  const auto row = [](int step, double loss) {
    return fmt::format("{{\"step\": {}, \"training_loss\": {}}}\n", step, loss);
  };
  runs.run("a", "seed: 0\n", {0.1});
  runs.run("b", "seed: 1\n", {0.1});
  runs.dir.write("a/metrics.jsonl", row(0, 4) + row(10, 2) + row(25, 2) + row(40, 1));
  runs.dir.write("b/metrics.jsonl", row(0, 4) + row(15, 3) + row(40, 1));
  const std::vector<size_t> points = path_points(comparison_page(runs.compared()));
  CHECK(std::count(points.begin(), points.end(), 5) == 1);  // at the steps 0, 10, 15, 25 and 40
}

TEST_CASE("the page of runs with very many metrics stays small") {
  const Workdirs runs;
  runs.run("a", "seed: 0\n", {0.1});
  std::string row = "{\"step\": 10, \"training_loss\": 1";
  for (int i = 0; i < 20'000; ++i) row += fmt::format(", \"val/metric{}\": 1", i);
  runs.dir.write("a/metrics.jsonl", row + "}\n");
  const std::string page = comparison_page(runs.compared());
  CHECK(page.size() < 11'000'000);
  CHECK(contains(page, "more charts would make this page too large"));
}

TEST_CASE("the page holds a chart of each metric, the table, and nothing from elsewhere") {
  const Workdirs runs;
  for (int i = 0; i < 12; ++i)
    runs.run(fmt::format("r{:02}", i), fmt::format("seed: {}\nlr: {}\nnote: '<b>'\n", i % 2, i / 2),
             {0.1, 0.5 + 0.01 * i}, i != 3);
  const std::string page = comparison_page(runs.compared());
  CHECK(count(page, "role=\"img\"") == 2);  // accuracy and loss
  CHECK(count(page, "<tr class=\"group\">") == 6);
  CHECK(contains(page, "unfinished at step 20 of 40"));
  CHECK(contains(page, "prefers-color-scheme:dark"));
  CHECK(contains(page, "width=device-width"));
  for (const char* outside : {"http", "<script", "@import", "src=", "<b>"})
    CHECK_FALSE(contains(page, outside));
}

}  // namespace bv::test
