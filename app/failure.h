// The end of a process by a failure: one line on stderr and an exit code.
#pragma once

#include <string>

#include "lib/util/error.h"

namespace bv {

struct Failure {
  Exit code;
  std::string line;
};

// Returns the failure for the exception that is being handled, of any type.
Failure failure_at_hand();
// Prints the line and returns the exit code. In a group it does not return: it tells the other
// ranks why this one ends, and ends the process.
Exit fail(const Failure& failure);

}  // namespace bv
