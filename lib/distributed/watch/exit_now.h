// Ends the process at once when the run has failed on another rank.
#pragma once

#include <string>

#include "lib/util/error.h"

namespace bv {

// Writes `line` to stderr and to the log and exits with `code`. Runs no destructors: they would
// wait for other ranks, which may never answer. A stuck log or stderr delays the exit by two
// seconds at most. Only for failures between processes; any other error is thrown.
[[noreturn]] void exit_now(Exit code, const std::string& line);

}  // namespace bv
