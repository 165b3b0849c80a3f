// The section of the report about the skipped examples (`skip_errors`).
#pragma once

#include <string>
#include <vector>

#include "lib/report/skipped_examples.h"

namespace bv {

// Returns HTML with the number and the first names of each data set; "" if nothing was skipped.
std::string render_skipped(const std::vector<SkippedSummary>& skipped);

}  // namespace bv
