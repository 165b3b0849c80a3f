// The parent of the ranks of one host: starts them, hosts the run's store (on node 0), passes
// signals on, ends all when one fails, and starts the group again where that is allowed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/distributed/launch/rank_layout.h"

namespace bv {

struct LaunchOptions {
  RankLayout place;                     // with `launches`
  std::vector<std::string> argv;        // every rank runs this program with these
  int max_restarts = 0;                 // --max-restarts
  int least_ranks = 0, most_ranks = 0;  // --elastic min:max; 0: a restart has as many ranks
  int64_t batch_size = 0;  // an elastic restart takes a number of ranks that divides it
  double startup = 600;    // seconds for all nodes to come
  // Seconds for all nodes to say how a generation ended. One that does not is lost: an elastic
  // restart goes on without it.
  double answer = 45;
  double grace = 10;  // seconds for the other ranks to end by themselves after a failure
};

// "2:8" -> least_ranks, most_ranks. Throws Error(Exit::usage) "--elastic 2:x: error: ...".
void parse_elastic(const std::string& text, LaunchOptions& options);

// Returns the process's exit code: 0, or the code of the rank that failed first (128 + signal for
// one that was killed); a rank's 7 only where no other code tells more. Blocks this thread's
// signals and waits for them, from the first moment on. Throws Error(Exit::usage, peer, memory)
// before any rank was started, and Error(Exit::peer) where the other nodes have gone on without
// this one; its ranks have ended then.
int launch(const LaunchOptions& options);

}  // namespace bv
