// `bvtrain replay --workdir D`: repeats a run from its last checkpoint, without changing it.
// Stops at the first step with a loss, a gradient or an update that is not finite, and reports
// where these values come from.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/ckpt/workdir/workdir.h"
#include "lib/config/load_config.h"
#include "lib/train/step/bad_step.h"

namespace bv {

struct Replay {
  int64_t first_step = 0, last_step = 0;  // the checkpoint's, and the last one that was computed
  std::optional<BadStep> bad;             // nullopt: all steps were good
  Snapshot weights;                       // before the bad step
};

// Computes in one process on the CPU, in the precision and with the number of threads of the run.
// It repeats a run of one process on a CPU bit for bit. Stops after `most_steps`; 0: at the end of
// the run. Throws Error(Exit::usage) if the workdir has no checkpoint from which a run can
// continue, and Stopped after a signal.
Replay replay(const Workdir& workdir, const std::vector<Override>& overrides, int64_t most_steps);

}  // namespace bv
