// report.html: one self-contained page about a run. It has no scripts, loads nothing from elsewhere
// and follows the reader's light or dark setting.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/report/eval_details.h"
#include "lib/report/history.h"
#include "lib/report/skipped_examples.h"

namespace bv {

struct Report {
  std::string title;
  std::string config_yaml;
  int64_t steps_per_epoch = 0;                 // 0 if unknown
  const History* history = nullptr;            // null is the same as an empty one
  std::map<std::string, EvalDetails> details;  // by evaluator
  std::vector<SkippedSummary> skipped;         // by data set
};

// Returns the page: training loss per step and per epoch, the metrics of every evaluator, confusion
// matrices, accuracy per class, some wrongly classified images, and the resolved config.
std::string render_report(const Report& report);

}  // namespace bv
