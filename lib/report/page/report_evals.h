// The sections of the report that show an evaluator's details.
#pragma once

#include <cstddef>
#include <string>

#include "lib/report/eval_details.h"

namespace bv {

// Returns HTML with the confusion matrix (for many classes: the most confused pairs), the accuracy
// per class, the calibration, figures per class, curves, the errors of a regression and wrongly
// classified images. Leaves out details that do not fit together. Has about `most_bytes` at most,
// which should be 40,000 or more.
std::string render_details(const EvalDetails& details, size_t most_bytes = 700'000);

}  // namespace bv
