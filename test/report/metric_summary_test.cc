#include "lib/report/metric_summary.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace bv {
namespace {

const double kNan = std::nan("");

void check_point(const std::optional<MetricSummary::Point>& point, int64_t step, double value) {
  REQUIRE(point);
  CHECK(point->step == step);
  CHECK(point->value == value);
}

}  // namespace

TEST_CASE("the summary keeps the last and the first best value of each metric") {
  MetricSummary summary;
  summary.add(1, {{"val/prec@1", 0.5}, {"val/loss", 2}, {"training_loss", kNan}});
  summary.add(2, {{"val/prec@1", 0.7}, {"val/loss", 1}, {"training_loss", 3}, {"val/other", 1}});
  summary.add(3, {{"val/prec@1", kNan}, {"val/loss", 1}, {"training_loss", kNan}});
  const auto& entries = summary.entries();
  check_point(entries.at("val/prec@1").best, 2, 0.7);
  check_point(entries.at("val/loss").best, 2, 1);
  check_point(entries.at("training_loss").best, 2, 3);
  CHECK_FALSE(entries.at("val/other").best);
  CHECK(entries.at("val/other").last.step == 2);
  CHECK(entries.at("val/prec@1").last.step == 3);
  CHECK(std::isnan(entries.at("val/prec@1").last.value));
  CHECK(summary.find("none") == nullptr);
}

TEST_CASE("a changed evaluator changes its own metrics, not those of the training") {
  CHECK(last_step_before_change({{"val/", 3}, {"val/x/", 7}}, "val/x/loss") == 7);
  CHECK(last_step_before_change({{"val/", 7}, {"val/x/", 3}}, "val/x/loss") == 3);
  CHECK(last_step_before_change({{"", 3}, {"val/", -1}}, "val/loss") == -1);
  CHECK(last_step_before_change({{"val/", 3}}, "test/loss") == -1);
  CHECK(last_step_before_change({{"", 3}}, "loss") == 3);
  CHECK(last_step_before_change({{"", 3}}, "training_loss") == -1);
}

TEST_CASE("a time has no best value, whatever the evaluator is called") {
  MetricSummary summary;
  summary.add(1, {{"z/secs/eval/accuracy", 3}, {"img/sec/core", 5}, {"y/hostmem/rss", 1}});
  for (const auto& [name, entry] : summary.entries()) CHECK_FALSE(entry.best);
  CHECK(summary.main_metric().empty());
}

TEST_CASE("metrics of an evaluator count even if its name is like that of a training metric") {
  for (const char* name :
       {"y/loss", "z/prec@1", "z/digits_1shot", "l2_distance/loss", "core_hours_x/loss",
        "global_schedule/loss", "global_schedule1/loss", "epoch/loss", "cm/recall@typing_errors"})
    CHECK(is_result(name));
  for (const char* name :
       {"l2_params", "l2_grads", "l2_updates", "core_hours", "core_hours_cpu",
        "core_hours_NVIDIA H100 80GB HBM3", "global_schedule", "global_schedule12", "y/hostmem/rss",
        "z/secs/update0", "z/secs/eval/y", "input/epoch/a", "input/errors", "y/errors",
        "val@8/errors", "skipped_steps", "rollbacks", "epoch"})
    CHECK_FALSE(is_result(name));
  MetricSummary summary;
  summary.add(1, {{"y/loss", 2}, {"l2_distance/prec@1", 0.5}});
  CHECK(summary.main_metric() == "l2_distance/prec@1");
  check_point(summary.entries().at("y/loss").best, 1, 2);
}

TEST_CASE("the summary of a history is that of its rows, however long it is") {
  History history;
  MetricSummary rows, restored;
  for (int64_t step = 1; step <= 20'000; ++step) {
    const double x = static_cast<double>(step);
    const Row row = {{"val/prec@1", std::sin(x)}, {"val/loss", std::cos(x)}, {"val/ece", kNan}};
    history.add(step, row);
    rows.add(step, row);
  }
  restored.add(history);
  for (const char* name : {"val/prec@1", "val/loss"}) {
    const MetricSummary::Entry& entry = restored.entries().at(name);
    const MetricSummary::Entry& expected = rows.entries().at(name);
    check_point(entry.best, expected.best->step, expected.best->value);
    check_point(entry.last, expected.last.step, expected.last.value);
  }
  CHECK_FALSE(restored.entries().at("val/ece").best);
}

TEST_CASE("the main metric is an evaluator's accuracy, or else one that has a better side") {
  CHECK(choose_main_metric({}) == "");
  CHECK(choose_main_metric({"training_loss", "num_params", "z/secs/eval/acc"}) == "");
  CHECK(choose_main_metric({"a/distance", "b/loss", "training_loss"}) == "b/loss");
  CHECK(choose_main_metric({"a/loss", "b/prec@5", "b/prec@1", "c/prec@1"}) == "b/prec@1");
  CHECK(choose_main_metric({"a/miou", "b/acc"}) == "b/acc");
  CHECK(choose_main_metric({"val/f1@fracture", "val/f1_macro"}) == "val/f1_macro");
  CHECK(choose_main_metric({"val/recall@cat", "val/prec@1"}) == "val/prec@1");
  CHECK(choose_main_metric({"test/acc", "val@8/acc"}) == "val@8/acc");  // not about a class
  // An evaluator of validation data comes before another one, but not before an accuracy.
  CHECK(choose_main_metric({"test/prec@1", "val/prec@1"}) == "val/prec@1");
  CHECK(choose_main_metric({"test/prec@1", "val/loss"}) == "test/prec@1");
  CHECK(choose_main_metric({"a/loss", "b/miou"}) == "b/miou");
  // Then one of test data comes before others. Only whole words count.
  CHECK(choose_main_metric({"a/prec@1", "test/prec@1"}) == "test/prec@1");
  CHECK(choose_main_metric({"eval/prec@1", "test/prec@1"}) == "test/prec@1");
  CHECK(choose_main_metric({"interval/prec@1", "test/prec@1"}) == "test/prec@1");
  CHECK(choose_main_metric({"imagenet_val2/prec@1", "test/prec@1"}) == "imagenet_val2/prec@1");
  CHECK(choose_main_metric({"Validation/prec@1", "test/prec@1"}) == "Validation/prec@1");
}

TEST_CASE("a metric of training data is the main metric only if there is no other") {
  CHECK(choose_main_metric({"minitrain/prec@1", "test/prec@1"}) == "test/prec@1");
  CHECK(choose_main_metric({"train_eval/prec@1", "test/prec@1"}) == "test/prec@1");
  CHECK(choose_main_metric({"train_val/prec@1", "z/prec@1"}) == "z/prec@1");
  CHECK(choose_main_metric({"test/loss", "train/prec@1"}) == "test/loss");
  CHECK(choose_main_metric({"minitrain/prec@1", "test/confidence"}) == "minitrain/prec@1");
  CHECK(choose_main_metric({"a/prec@1", "pretrained/acc", "train/prec@1"}) == "a/prec@1");
}

}  // namespace bv
