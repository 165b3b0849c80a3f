// Which value of a metric is the best so far.
#include "lib/train/selection.h"

#include <catch2/catch.hpp>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "lib/config/load_config.h"

namespace bv::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// Adds the values at steps 0, 10, 20, ... and returns the steps at which they were the best.
std::vector<int64_t> best_steps(BestValue& best, const std::vector<double>& values) {
  std::vector<int64_t> steps;
  int64_t step = 0;
  for (const double value : values) {
    if (best.add(step, value)) steps.push_back(step);
    step += 10;
  }
  return steps;
}

}  // namespace

TEST_CASE("the best value is the first of the highest") {
  BestValue best({"val/prec@1", true});
  CHECK_FALSE(best.best());
  CHECK(best_steps(best, {0.5, 0.5, 0.4, 0.6, 0.6}) == std::vector<int64_t>{0, 30});
  CHECK(best.best()->step == 30);
  CHECK(best.best()->value == 0.6);
  CHECK(best.last_step() == 40);
}

TEST_CASE("or the first of the lowest") {
  BestValue best({"val/loss", false});
  CHECK(best_steps(best, {2, 1, 1, 3, 0.5}) == std::vector<int64_t>{0, 10, 40});
}

TEST_CASE("a value that is not finite is never the best") {
  BestValue up({"val/prec@1", true}), down({"val/loss", false});
  CHECK(best_steps(up, {kNan, kInf, 0.1, kNan, kInf, 0.2}) == std::vector<int64_t>{20, 50});
  CHECK(best_steps(down, {kNan, -kInf, 0.1, kNan, 0.05}) == std::vector<int64_t>{20, 40});
}

TEST_CASE("an improvement must exceed min_delta") {
  BestValue best({"val/loss", false}, 0.5);
  // 1.5 and 1.2 are compared with 2, not with each other.
  CHECK(best_steps(best, {2, 1.5, 1.2, 1.2}) == std::vector<int64_t>{0, 20});
}

TEST_CASE("the best value is that of a search through all values") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const bool up = trial % 2 == 0;
    BestValue best({"m", up});
    std::vector<double> values(1 + random() % 12);
    for (double& value : values)
      value = random() % 8 == 0 ? kNan : static_cast<double>(random() % 6);
    best_steps(best, values);
    int64_t first = -1;
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i])) continue;
      const double old = first < 0 ? 0 : values[first];
      if (first < 0 || (up ? values[i] > old : values[i] < old)) first = static_cast<int64_t>(i);
    }
    CHECK((best.best() ? best.best()->step : -10) == first * 10);
  }
}

TEST_CASE("the prefix of an evaluator does not say which values of its metric are better") {
  for (const std::string prefix : {"mae_", "focal_loss_", "acc_", "lr_", "val"}) {
    CAPTURE(prefix);
    const Config config = parse_config(
        "evals: {test: {type: classification, data: {name: digits, split: test}, "
        "pp_fn: 'value_range(-1, 1)', loss_name: softmax_xent, log_steps: 2, prefix: " +
            prefix + "}}\nbest: [{metric: " + prefix + "prec@1}, {metric: " + prefix +
            "prec@5, name: a, higher_is_better: true}]\nearly_stop: {metric: " + prefix +
            "loss, patience_steps: 5}\n",
        "t.yaml");
    const RunLength length{.batch_size = 8, .data_size = 80, .total_steps = 10};
    EvalDefaults defaults;
    defaults.env.batch_size = 8;
    defaults.predictions = {{"predict", kLogitsOutput}};
    const auto jobs = read_evals(config.section("evals"), defaults, length);
    const Selection selection = read_selection(config, jobs, length);
    throw_problems(config);
    CHECK(warnings(config).empty());
    REQUIRE(selection.best.size() == 2);
    CHECK(selection.best[0].watched.higher_is_better);
    CHECK(selection.best[1].watched.higher_is_better);
    REQUIRE(selection.early_stop);
    CHECK_FALSE(selection.early_stop->watched.higher_is_better);
  }
}

TEST_CASE("a metric is watched only in the evaluators that may measure it") {
  const Config config = parse_config(
      R"(
evals:
  all: {type: class_metrics, data: {name: digits, split: test}, pp_fn: 'value_range(-1, 1)',
        metrics: [f1_per_class], log_steps: 2, prefix: 'each_'}
  cm: {type: class_metrics, data: {name: digits, split: test}, pp_fn: 'value_range(-1, 1)',
       metrics: [f1_macro], log_steps: 2, prefix: val/}
  val: {type: classification, data: {name: digits, split: test}, pp_fn: 'value_range(-1, 1)',
        loss_name: softmax_xent, log_steps: 2, skip_errors: 3}
best:
  - {metric: val/prec@1}
  - {metric: val/f1_macro, name: f1}
  - {metric: val/errors, name: errors, higher_is_better: false}
  - {metric: each_f1@3, name: three, higher_is_better: true}
)",
      "t.yaml");
  const RunLength length{.batch_size = 8, .data_size = 80, .total_steps = 10};
  EvalDefaults defaults;
  defaults.env.batch_size = 8;
  defaults.predictions = {{"predict", kLogitsOutput}};
  const auto jobs = read_evals(config.section("evals"), defaults, length);
  const Selection selection = read_selection(config, jobs, length);
  throw_problems(config);
  std::vector<std::set<std::string>> watched;
  for (const BestSeries& series : selection.best) watched.push_back(series.watched.evaluators);
  CHECK(watched == std::vector<std::set<std::string>>{{"val"}, {"cm"}, {"val"}, {"all"}});
  CHECK(owners_of_shared_prefixes(jobs) == MetricOwners{{"val/errors", "val"},
                                                        {"val/f1_macro", "cm"},
                                                        {"val/loss", "val"},
                                                        {"val/prec@1", "val"},
                                                        {"val/prec@5", "val"}});
}

}  // namespace bv::test
