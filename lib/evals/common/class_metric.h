// The metrics of the evaluator class_metrics: their names and how they follow from ClassScores.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/evals/common/class_scores.h"

namespace bv {

// One entry of `metrics`.
struct ClassMetric {
  enum class Figure {
    accuracy,
    balanced_accuracy,
    top,
    precision,
    recall,
    f1,
    auroc,
    average_precision,
    log_loss,
    brier
  };
  std::string name;
  Figure figure = Figure::accuracy;
  Averaging averaging = Averaging::macro;
  bool per_class = false;
  int64_t k = 0;  // of `top<k>`

  // Returns the value; not with `per_class`.
  double value(const ClassScores& scores) const;
  // Returns the value of a class; only with `per_class`.
  double value_of_class(const ClassScores& scores, int64_t label) const;
};

// Returns all metrics but top<k>.
std::vector<ClassMetric> known_class_metrics();
// Returns the metric `name`; nullopt if there is none.
std::optional<ClassMetric> find_class_metric(const std::string& name);
// Returns the names of the metrics that an evaluator without the key `metrics` computes.
std::vector<std::string> default_class_metrics(bool multilabel);

}  // namespace bv
