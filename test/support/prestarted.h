// Starts bvtrain in a few milliseconds instead of 0.4 s: as a fork of a bvtrain that has loaded
// LibTorch and waits before its main() (test/prestart/prestart.cc).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "test/support/process.h"

namespace bv::test {

// Starts `program`, a path of bvtrain, as Process does. Returns nullopt if it must be started in
// the usual way: with a variable that libraries may read before main() (all except BVTRAIN_*), with
// a very long command line, or in a sanitized build.
std::optional<Process> start_prestarted(const std::string& program,
                                        const std::vector<std::string>& argv,
                                        const Environment& environment);

}  // namespace bv::test
