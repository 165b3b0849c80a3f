// A comparison as text for a terminal.
#pragma once

#include <cstddef>
#include <string>

#include "lib/compare/comparison.h"

namespace bv {

// Returns "test/prec@1: last value, higher is better": what sorts the table.
std::string sort_text(const Comparison& comparison);
// Returns the heading of a metric's column: "val/x (last)" if the others show their best values.
std::string metric_heading(const Comparison& comparison, size_t metric);
// Returns the run's fold as the table shows it.
std::string fold_text(const RunRecord& run);
// Returns in what the runs of a group may differ: "seed" or "seed or fold".
std::string repeated_text(const Comparison& comparison);
// Returns "2 finished, 1 unfinished"; for a single run, its progress.
std::string group_status(const Comparison& comparison, const RunGroup& group);

// Returns the table with a heading and a legend. Lines are at most `width` columns wide where that
// is possible: long values, or else the whole config of a group, are then below the table.
std::string comparison_text(const Comparison& comparison, size_t width);

}  // namespace bv
