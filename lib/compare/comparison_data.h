// A comparison for other programs.
#pragma once

#include <string>

#include "lib/compare/comparison.h"

namespace bv {

// Returns a header line and then one line for each run, in the order of the table. A group's mean,
// standard deviation and n are repeated on the lines of all its runs. RFC 4180, except that lines
// end in \n.
std::string comparison_csv(const Comparison& comparison);

// Returns an object of groups, each with its config (the keys that differ), its spreads and its
// runs, each with the last and best value of every metric.
std::string comparison_json(const Comparison& comparison);

}  // namespace bv
