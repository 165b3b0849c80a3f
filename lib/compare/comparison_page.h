// A comparison as one HTML page: the overlaid curves of all runs, and the table. It has no scripts,
// loads nothing from elsewhere and follows the reader's light or dark setting.
#pragma once

#include <string>

#include "lib/compare/comparison.h"

namespace bv {

// The runs must have been read with their curves.
std::string comparison_page(const Comparison& comparison);

}  // namespace bv
