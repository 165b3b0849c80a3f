// What a comparison needs from a metrics.jsonl: for each metric its last value, its extremes and,
// for charts, its curve.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/report/metric_summary.h"

namespace bv {

// All values of one metric.
struct MetricSeries {
  static constexpr size_t kMostPoints = 1024;

  using StepValue = std::pair<int64_t, double>;
  StepValue last;      // in the newest row that has the metric
  StepValue previous;  // in the row before that has the metric; valid if count > 1
  // NaN counts as neither, and values before a change of what is measured do not count. Valid only
  // if has_extremes.
  StepValue min, max;
  bool has_extremes = false;
  // Evenly thinned, with the newest value; empty unless curves were asked for.
  std::vector<StepValue> points;
  int64_t count = 0, stride = 1;  // every stride-th of `count` values is in `points`
};

struct MetricScan {
  std::map<std::string, MetricSeries> series;  // by metric
  int64_t rows = 0, last_step = 0;
  int64_t damaged = 0, first_damaged = 0;  // lines that are not rows; line number of the first
  int64_t cut_line = 0;  // line number of a last line without its end; 0 if there is none
};

// Reads every row once. Lines that are not rows, or not in the order of steps, do not count. A file
// that does not exist has no rows. Throws Error(Exit::usage) if the file cannot be read.
MetricScan scan_metrics(const std::string& file, bool with_curves,
                        const MeasuredAnew& changed = {});

}  // namespace bv
