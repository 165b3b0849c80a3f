// The charts that show a run's history.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/report/history.h"
#include "lib/report/metric_direction.h"
#include "lib/report/page/chart.h"

namespace bv {

// A metric of an evaluator. A chart shows all metrics with the same suffix.
struct EvalMetric {
  std::string name;    // "test/prec@1"
  std::string prefix;  // "test"; empty if the name has no '/'
  std::string suffix;  // "prec@1"
  int color = 0;       // the prefix has the same colour in all charts
  Direction direction = Direction::none;
};

// Returns the best (step, value) of a series, or null if its name does not say which direction is
// better, or if no value is a number.
const std::pair<int64_t, double>* best_of(const History& history, const std::string& name);

// Whether the training loop measures `name` itself: it does not come from an evaluator.
bool is_trainers_own(std::string_view name);
// Returns the series that come from evaluators, not from the training loop. The main metric and
// those with its suffix come first, metrics of a single class last. Among the others, those for
// which a higher value is better come first, those without a better direction last.
std::vector<EvalMetric> eval_metrics(const History& history);

// The training loss per step, together with the evaluators' losses.
Chart loss_chart(const History& history);
// The mean training loss of each epoch. A step belongs to the epoch in which it begins, as the
// metric `epoch` says or, without that metric, `steps_per_epoch`.
Chart epoch_loss_chart(const History& history, double steps_per_epoch);
std::vector<Chart> metric_charts(const History& history);  // one per suffix, the best values marked
std::vector<Chart> training_charts(
    const History& history);  // schedules, gradient norm, speed, waiting

// Returns an SVG file with the loss chart and, next to it, the first other chart of the evaluators.
std::string render_learning_curve(const History& history);

}  // namespace bv
