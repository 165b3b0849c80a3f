#pragma once

#include "lib/config/config.h"

namespace bv {

// Logs the warnings that the readers of a config have recorded.
void log_warnings(const Config& config);

}  // namespace bv
