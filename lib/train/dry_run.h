// --dry-run: builds everything, reads one example of each split, runs one training step and one
// evaluation step (for real where that is quick, else on the meta device), writes nothing.
#pragma once

#include <string>

#include "lib/ckpt/workdir.h"
#include "lib/config/config.h"

namespace bv {

// Returns what to print: steps, epochs, examples, parameters, memory, what the run would start
// from, what was run. `full` uses the whole batch instead of two examples. `workdir`: the run's, or
// null. `ranks`: processes the run would have; what is run is run by this one. Throws what a run
// would throw at its start.
std::string dry_run(const Config& config, bool synthetic, bool full, const Workdir* workdir,
                    int ranks);

}  // namespace bv
