#pragma once

#include <source_location>

#include "lib/config/config.h"

namespace bv {

// Returns config[key], a number from `least` to 4096, or `fallback` if it is absent. Records a
// problem for any other number.
int read_count(const Config& config, const char* key, int least, int fallback,
               std::source_location where = std::source_location::current());

}  // namespace bv
