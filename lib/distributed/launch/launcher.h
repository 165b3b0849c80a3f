// The launcher: the parent process of the ranks of one host. It starts them, runs the store of the
// run (on node 0), passes signals on, ends all ranks when one fails, and restarts the group if that
// is allowed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/distributed/launch/rank_layout.h"

namespace bv {

struct LaunchOptions {
  // `launches` must be set: this process starts the ranks and is not a rank itself.
  RankLayout layout;
  std::vector<std::string> argv;        // of every rank
  int max_restarts = 0;                 // --max-restarts
  int least_ranks = 0, most_ranks = 0;  // --elastic min:max; 0: restarts keep the number of ranks
  int64_t batch_size = 0;               // the number of ranks after an elastic restart divides this
  double startup_timeout = 600;         // seconds for all nodes to join
  // Seconds for all nodes to report how their ranks ended. A node that does not is lost; an elastic
  // restart continues without it.
  double answer_timeout = 45;
  double grace_period = 10;  // seconds for the other ranks to end by themselves after a failure
};

// Parses "2:8" into least_ranks and most_ranks. Throws Error(Exit::usage) "--elastic 2:x: error:
// ...".
void parse_elastic(const std::string& text, LaunchOptions& options);

// Runs the ranks of this host. Returns the exit code of the process: 0, or the code of the rank
// that failed first (128 + signal if it was killed). A rank's code 7 only says that another rank
// failed, so any other code takes precedence. The code of a rank that failed also takes precedence
// over those of ranks that a signal has stopped. Blocks the signals of this thread from the start
// and handles them itself. Throws Error(Exit::usage, peer, memory) before any rank was started, and
// Error(Exit::peer) if the other nodes have continued without this one, after its ranks have ended.
int launch(const LaunchOptions& options);

}  // namespace bv
