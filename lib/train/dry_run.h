// --dry-run: builds everything that a run needs and reads one example of each split. It then runs
// one training step and one evaluation step, or only their shapes on the meta device if the model
// is too large to run within a second. It writes nothing.
#pragma once

#include <string>

#include "lib/ckpt/workdir.h"
#include "lib/config/config.h"

namespace bv {

// Returns a summary to print: steps, epochs, examples, parameters, memory, where the run would
// start, and what was checked. `full` runs the whole batch instead of two examples. `workdir` is
// the run's, or null. The summary describes a run of `ranks` processes, but this process computes
// alone. Throws whatever the run would throw at its start.
std::string dry_run(const Config& config, bool synthetic, bool full, const Workdir* workdir,
                    int ranks);

}  // namespace bv
