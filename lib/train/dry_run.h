// --dry-run: builds everything that a run needs and reads one example of each split. It then runs
// one training step and one evaluation step, or only their shapes on the meta device if the model
// is too large to run within a second. It writes nothing.
#pragma once

#include <string>

#include "lib/ckpt/workdir.h"
#include "lib/config/config.h"

namespace bv {

struct DryRunOptions {
  bool synthetic = false;       // generated data
  bool full = false;            // runs the whole batch instead of two examples
  bool accept_changes = false;  // of the config since the workdir's checkpoint
  int ranks = 1;  // of the run that the summary describes; this process computes alone
};

// Returns a summary to print: steps, epochs, examples, parameters, memory, where the run would
// start, and what was checked. `workdir` is the run's, or null. Throws whatever the run would throw
// at its start.
std::string dry_run(const Config& config, const Workdir* workdir, const DryRunOptions& options);

}  // namespace bv
