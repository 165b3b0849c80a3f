// Reads all examples of a data set to find the broken ones.
#pragma once

#include <cstdint>
#include <functional>

#include "lib/input/check/example_look.h"

namespace bv {

// Reads every example once with several threads, decodes its images and, with options.pp, applies
// the pp string. Calls `found` for each broken example, in the order of the data. With options.pp,
// an example whose features differ in shape or dtype from those of the first one is broken, too.
// Shows the progress. Returns the number of broken examples. Throws Error if something fails that
// is not the fault of an example, and Stopped if a signal asks the process to stop.
int64_t check_data(const OpenedData& opened, int threads, const LookOptions& options,
                   const std::function<void(const BrokenExample&)>& found);

}  // namespace bv
