// Compares runs: groups those that differ only in their seed or fold, computes mean and standard
// deviation of their metrics, and sorts the groups by one metric.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/compare/run_record.h"
#include "lib/report/metric_direction.h"

namespace bv {

// Which value of a metric represents a run: the newest one, or the best one of all its rows.
enum class MetricValue { last, best };

struct CompareOptions {
  std::string sort = {};  // a metric; "": the main metric of the runs
  MetricValue value = MetricValue::last;
  // Of `sort`, and of each further metric whose name does not say it; nullopt: what the names say.
  std::optional<bool> lower_is_better = {};
  std::vector<std::string> metrics = {};  // further metrics to show
};

// A metric of several runs.
struct Spread {
  double mean = 0, deviation = 0;  // the deviation is that of a sample (n - 1); 0 for n = 1
  int64_t n = 0;                   // 0: no run has the metric
};
// Does not depend on the order of the values. Equal values have exactly their value as the mean,
// and the deviation 0. If one of several values is not finite, the deviation is NaN.
Spread spread_of(const std::vector<double>& values);

struct ComparedMetric {
  std::string name;
  Direction direction = Direction::none;  // none: neither its name nor the user says it
};

struct RunGroup {
  std::vector<size_t> runs;     // indices, by seed and fold
  std::vector<Spread> spreads;  // by metric, over the finished runs
  // No run has finished, so the spreads are over what the unfinished runs have measured so far.
  bool provisional = false;
  int64_t finished = 0;
};

struct Comparison {
  MetricValue value = MetricValue::last;
  std::vector<RunRecord> runs;
  std::vector<ComparedMetric> metrics;  // the first one sorts
  std::vector<std::string> keys;        // those that differ between groups, sorted
  // Sorted from best to worst. Groups without a finished run follow; groups without the metric come
  // last.
  std::vector<RunGroup> groups;
  std::vector<std::string> warnings;

  // Returns the value of a metric for a run, with its step; null if the run has not measured it. A
  // last value that does not belong to the final weights counts as none (RunRecord::is_outdated).
  const MetricSeries::StepValue* value_of(size_t run, size_t metric) const;
  // Whether value_of() returns best values, not the last ones: if they were asked for, and if it is
  // known which values are better.
  bool shows_best(size_t metric) const;
  // Returns whether any run has one fold of cross-validation as its data.
  bool has_folds() const;
  // Returns the JSON text of keys[key] in a group, "" if it has no such key.
  std::string config_value(const RunGroup& group, size_t key) const;
};

// Throws Error(Exit::usage) for a metric that no run has.
Comparison compare(std::vector<RunRecord> runs, const CompareOptions& options);

// Returns the metric by which runs are compared if the user names none: one of an evaluator,
// preferably a top-1 accuracy on validation data and one that all runs have, otherwise the training
// loss. "" if there is no metric.
std::string main_metric(const std::vector<RunRecord>& runs);

// Whether a lower value of a metric is better, as its name says.
bool lower_is_better(const std::string& metric);

}  // namespace bv
