// The part of the report that an evaluator's details give.
#pragma once

#include <string>

#include "lib/report/metrics.h"

namespace bv {

// Sections with the confusion matrix (of many classes: the most confused pairs), per-class
// accuracy, confidence and wrongly classified images. Details that do not fit together are left
// out.
std::string render_details(const EvalDetails& details);

}  // namespace bv
