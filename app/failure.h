// How a failure ends the process: one line, an exit code.
#pragma once

#include <string>

#include "lib/util/error.h"

namespace bv {

struct Failure {
  Exit code;
  std::string line;
};

// Of the exception that is being handled, whatever threw it.
Failure failure_at_hand();
// Prints the line. A rank tells the others why it ends, and ends here; else the exit code returns.
int fail(const Failure& failure);

}  // namespace bv
