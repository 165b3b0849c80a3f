// The last and the best value of every metric of a run.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/report/history.h"
#include "lib/report/row.h"

namespace bv {

// The metric prefixes of evaluators, each with the step of the last restart that changed or added
// the evaluator; -1 if none did. Values up to that step cannot be compared with later ones. If
// several evaluators have the same prefix, also whole names of their metrics.
using MeasuredAnew = std::map<std::string, int64_t>;

// Returns that step for a metric; -1 if no restart changed what it measures. If its name begins
// with several prefixes, the longest one counts.
int64_t last_step_before_change(const MeasuredAnew& changed, std::string_view metric);

class MetricSummary {
 public:
  struct Point {
    int64_t step = 0;
    double value = 0;
  };
  struct Entry {
    Point last;
    // The first point with the best value. Absent if all values were NaN, or if neither higher nor
    // lower values of the metric are better.
    std::optional<Point> best;
  };

  void add(int64_t step, const Row& row);
  void add(const History& history);  // of an earlier process of the run; into an empty summary

  const std::map<std::string, Entry>& entries() const { return entries_; }
  const Entry* find(const std::string& name) const;  // null: not measured yet
  // Returns the metric that represents the run: choose_main_metric() of all names.
  std::string main_metric() const;

 private:
  std::map<std::string, Entry> entries_;
};

// Whether `name` measures how good the model is: it is the training loss or an evaluator's metric.
bool is_result(std::string_view name);

// Returns the metric that represents the run: an evaluator's accuracy, or else another metric for
// which a higher value is better, or else one for which a lower value is. Among several it prefers
// one that is not about a single class, then one of an evaluator with a word such as "val" in its
// name, then one with "test", then the first in alphabetical order. A metric of training data
// (names_training()) comes after all others. Returns "" if there is none.
std::string choose_main_metric(const std::vector<std::string>& names);

}  // namespace bv
