// How long ranks wait for each other before they call it a failure.
#pragma once

namespace bv {

// In seconds, unless a comment says otherwise. docs/distributed.md lists the environment variables
// that change them.
struct Timeouts {
  // Until all ranks have joined. Also the time-out of collectives until three steps have been
  // measured.
  double startup = 600;
  double heartbeat = 2;  // between two heartbeats of a rank
  double silence = 20;   // a rank without a heartbeat for this long is dead or stopped
  // The time-out of a collective is the larger of least_step and step_factor times the median
  // length of a step.
  double least_step = 60;
  double step_factor = 20;  // a ratio
  double phase = 3600;      // how long a long phase (Group::Phase) may keep other ranks waiting
  // A ratio: a rank whose steps compute longer than slow_ratio times the median gets a warning.
  double slow_ratio = 2;
};

}  // namespace bv
