// The keys `best` and `early_stop`: which evaluation of a run is the best so far, and whether the
// run has stopped improving. Trainer applies them after the evaluators of a step
// (trainer_selection.cc). As in JAXline's train.py, a value must be strictly better to count, so
// that ties keep the earlier step, and NaN never wins.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/config/duration.h"
#include "lib/report/row.h"
#include "lib/train/eval_job.h"

namespace bv {

// A metric, and whether higher or lower values are better.
struct WatchedMetric {
  std::string metric;  // "val/prec@1"
  bool higher_is_better = true;
  std::set<std::string> evaluators = {};  // those that may measure it
  std::string prefix = {};                // of their metrics
  std::string key = {};                   // in the config: "best.metric"
  Place place = {};                       // of its value
};

// The best value of a metric so far, where a value must be better by more than `min_delta` to take
// the place of an earlier one.
class BestValue {
 public:
  explicit BestValue(WatchedMetric watched, double min_delta = 0)
      : watched_(std::move(watched)), min_delta_(min_delta) {}

  struct Point {
    int64_t step = 0;
    double value = 0;
  };
  // Takes the value of a later step than before. Returns whether it is the best so far. A value
  // that is not finite never is.
  bool add(int64_t step, double value);
  // Sets the best value to one that is not in any row of metrics.
  void restore(Point best) { best_ = best; }
  const std::optional<Point>& best() const { return best_; }  // nullopt: none yet
  int64_t first_step() const { return first_step_; }  // of the first value; -1: there is none
  int64_t last_step() const { return last_step_; }    // of the last value; -1: there is none
  const WatchedMetric& watched() const { return watched_; }

 private:
  WatchedMetric watched_;
  double min_delta_;
  std::optional<Point> best_;
  int64_t first_step_ = -1, last_step_ = -1;
};

// An entry of `best`.
struct BestSeries {
  std::string name;  // of the folder ckpt/best-<name>; empty: ckpt/best
  WatchedMetric watched;
};

struct EarlyStop {
  WatchedMetric watched;
  int64_t patience = 0;  // steps
  double min_delta = 0;
};

struct Selection {
  std::vector<BestSeries> best;     // which the training keeps
  std::vector<BestSeries> by_eval;  // which `bvtrain eval` keeps
  std::optional<EarlyStop> early_stop;
};

// Returns the value of the metric in a row, if one of its evaluators has run in that row. Ignores a
// value of the same name that only the training loop measures.
std::optional<double> evaluated_value(const Row& row, const WatchedMetric& watched);

// Returns the error message for a metric that none of the evaluators of `watched` measures.
// `measured` are the metrics that they do measure. Example: "no such metric 'val/lost' (did you
// mean 'val/loss'?); val measures val/loss, val/prec@1".
std::string unknown_metric(const WatchedMetric& watched, const std::vector<std::string>& measured);

// Returns that error message for a metric that is not in the row of its evaluators.
std::string missing_metric(const WatchedMetric& watched, const Row& row);

// Reads both keys. Records problems with the config, such as a metric that none of the evaluators
// in `jobs` measures during the training. Metrics of evaluators whose Evaluator::metrics() are not
// known can only be checked after their first run.
Selection read_selection(const Config& config, const std::vector<EvalJob>& jobs,
                         const RunLength& length);

// Like read_selection(), but reads only Selection::by_eval.
std::vector<BestSeries> read_best_by_eval(const Config& config, const std::vector<EvalJob>& jobs);
// Returns whether there is anything for it to read.
bool has_best_by_eval(const Config& config);

}  // namespace bv
