// Which charts a run's history gives.
#pragma once

#include <string>
#include <vector>

#include "lib/report/metrics.h"
#include "lib/report/svg.h"

namespace bv {

// A metric of an evaluator: name = prefix + suffix; charts join those of one suffix.
struct EvalMetric {
  std::string name;    // "test/prec@1"
  std::string prefix;  // "test", "" without a '/'
  std::string suffix;  // "prec@1"
  int color = 0;       // of the prefix, the same in all charts
  bool lower_is_better() const;
};

// The series that the training loop did not make itself; those where higher is better first.
std::vector<EvalMetric> eval_metrics(const History& history);

Chart loss_chart(const History& history);  // per step, the evaluators' losses beside it
Chart epoch_loss_chart(const History& history, int64_t steps_per_epoch);
std::vector<Chart> metric_charts(const History& history);    // one per suffix
std::vector<Chart> training_charts(const History& history);  // schedules, norms, speed

}  // namespace bv
