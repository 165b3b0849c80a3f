// report.html: one self-contained file. No scripts, nothing from elsewhere; follows the reader's
// light or dark setting.
#pragma once

#include <map>
#include <string>

#include "lib/report/metrics.h"

namespace bv {

struct Report {
  std::string title;
  std::string config_yaml;
  int64_t steps_per_epoch = 0;
  const History* history = nullptr;            // null: as an empty one
  std::map<std::string, EvalDetails> details;  // by evaluator
};

// Training loss per step and per epoch, every evaluator's metrics, confusion matrix, per-class
// accuracy, a few wrongly classified images, the resolved config.
std::string render_report(const Report& report);

// The learning curve alone, as an SVG file: training loss (with the evaluators' losses) and, beside
// it, the first other metric of the evaluators.
std::string render_learning_curve(const History& history);

}  // namespace bv
