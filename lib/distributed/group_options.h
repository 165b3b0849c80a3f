// Settings with which a rank joins its group.
#pragma once

#include <functional>

#include "lib/distributed/launch/rank_layout.h"
#include "lib/distributed/watch/timeouts.h"

namespace bv {

struct GroupOptions {
  Timeouts timeouts;
  int threads = 2;  // threads of Gloo: this many collectives run at the same time
  // Called repeatedly while ranks join. Joining stops when it returns true.
  std::function<bool()> stop = {};
  int cuda = -1;  // this rank's CUDA device, whose tensors NCCL communicates; -1: none
  // Opens the group, with its store and its Gloo or NCCL backends, even if it has only one rank.
  // Without it, Group::join() returns Group::single() in that case. Tests use it to exercise the
  // backends in one process.
  bool even_alone = false;
};

// Reads the time-outs from BVTRAIN_STARTUP_TIMEOUT, BVTRAIN_STEP_TIMEOUT, BVTRAIN_SILENCE,
// BVTRAIN_HEARTBEAT and BVTRAIN_PHASE_TIMEOUT, in seconds. Throws Error(Exit::usage) that names the
// variable.
GroupOptions group_options(const EnvironmentMap& environment);

}  // namespace bv
