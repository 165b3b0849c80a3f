// The man page bvtrain(1).
#pragma once

#include <string>

#include "lib/help/command_line.h"

namespace bv {

// Returns the page in roff. `version`: "0.1.0".
std::string man_page(const CommandLine& command_line, const std::string& version);

}  // namespace bv
