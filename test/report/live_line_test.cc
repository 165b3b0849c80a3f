#include "lib/report/live_line.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace bv {
namespace {

LiveNumbers all_numbers() {
  LiveNumbers numbers;
  numbers.step = 1234;
  numbers.total_steps = 5000;
  numbers.loss = 0.12344;
  numbers.metric = "val/prec@1";
  numbers.value = 0.9812;
  numbers.best = 0.9833;
  numbers.images_per_second = 12345.4;
  numbers.data_wait = 0.031;
  numbers.memory = 1.25 * (1 << 30);
  numbers.eta_seconds = 192;
  return numbers;
}

}  // namespace

TEST_CASE("the live line") {
  CHECK(live_line(all_numbers()) ==
        "step 1,234/5,000 24.6%  loss 0.1234  val/prec@1 0.9812 (best 0.9833)  12,345 img/s  "
        "data 3%  mem 1.2 GiB  ETA 3m12s");
  LiveNumbers evaluating = all_numbers();
  evaluating.evaluator = "val";
  evaluating.memory_name = "host mem";
  CHECK(live_line(evaluating) ==
        "step 1,234/5,000 24.6%  evaluating val  loss 0.1234  val/prec@1 0.9812 (best 0.9833)  "
        "12,345 img/s  data 3%  host mem 1.2 GiB  ETA 3m12s");
}

TEST_CASE("the live line leaves out what is not known") {
  LiveNumbers numbers;
  numbers.step = 500;
  numbers.total_steps = 1000;
  CHECK(live_line(numbers) == "step 500/1,000 50.0%");
  numbers.eta_seconds = 0.4;
  CHECK(live_line(numbers) == "step 500/1,000 50.0%");
  numbers.total_steps = numbers.step = 0;
  CHECK(live_line(numbers) == "step 0/0");
}

TEST_CASE("the live line says 100% at the end only, and no speed is rounded to 0") {
  LiveNumbers numbers;
  numbers.step = 99'999;
  numbers.total_steps = 100'000;
  CHECK(live_line(numbers) == "step 99,999/100,000 99.9%");
  numbers.step = 100'000;
  CHECK(live_line(numbers) == "step 100,000/100,000 100.0%");
  CHECK(speed_text(0.0125) == "0.0125 img/s");
  CHECK(speed_text(2.456) == "2.46 img/s");
  CHECK(speed_number(2.456) == "2.46");
  CHECK(speed_text(1234567) == "1,234,567 img/s");
  CHECK(short_duration(0.0354) == "0.035s");
  CHECK(short_duration(2.14) == "2.1s");
  CHECK(short_duration(71.6) == "1m12s");
}

TEST_CASE("the live line takes the newest values that are known") {
  MetricSummary metrics;
  LiveNumbers numbers;
  numbers.take(metrics);
  CHECK_FALSE(numbers.loss);
  CHECK(numbers.metric.empty());
  metrics.add(1, {{"training_loss", 2}, {"val/loss", 3}, {"val/prec@1", 0.5}});
  metrics.add(2, {{"training_loss", 1}});
  metrics.add(3, {{"val/prec@1", 0.25}});
  numbers.take(metrics);
  CHECK(*numbers.loss == 1);
  CHECK(numbers.metric == "val/prec@1");
  CHECK(*numbers.value == 0.25);
  CHECK(*numbers.best == 0.5);
}

TEST_CASE("the line of an evaluation compares its main metric with the best before") {
  MetricSummary before;
  const auto line = [&](double accuracy) {
    return evaluation_line(500, "val", {{"val/loss", 0.25}, {"val/prec@1", accuracy}}, 2.14,
                           before);
  };
  CHECK(line(0.5) == "[500] val/loss=0.25  val/prec@1=0.5  2.1s");
  before.add(400, {{"val/prec@1", 0.5}, {"val/loss", 0.125}});
  CHECK(line(0.75) == "[500] val/loss=0.25  val/prec@1=0.75 (best so far)  2.1s");
  CHECK(line(0.25) == "[500] val/loss=0.25  val/prec@1=0.25 (best 0.5 at step 400)  2.1s");
  CHECK(line(std::nan("")) == "[500] val/loss=0.25  val/prec@1=nan (best 0.5 at step 400)  2.1s");
  CHECK(evaluation_line(1, "val", {{"val/loss", 0.0625}}, 2.14, before) ==
        "[1] val/loss=0.0625 (best so far)  2.1s");
  CHECK(evaluation_line(1, "save", {}, 2.14, before) == "[1] save: done  2.1s");
}

}  // namespace bv
