// The launcher: the parent process of the ranks of one host. It starts them, runs the store of the
// run (on node 0), forwards signals, ends all ranks when one fails, and restarts the group if that
// is allowed.
#pragma once

#include <cstdint>
#include <functional>
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
  // Seconds for each of three waits: for the name of node 0, for its store, and for all nodes.
  double startup_timeout = 600;
  // Seconds for all nodes to report how their ranks ended. A node that does not report is lost; an
  // elastic restart continues without it.
  double answer_timeout = 45;
  double grace_period = 10;  // seconds for the other ranks to end by themselves after a failure
  double hold_period = 10;   // seconds after which the error lines of a rank that runs are printed
  double kill_period = 30;   // seconds for a rank to end after SIGKILL; then the launcher continues
                             // without it
  // Returns why a restart would not continue the run, such as "out/x: the workdir is gone", or "".
  // `trained`: rank 0 has finished a step. Node 0 calls it before a restart. If
  // empty, the launcher does not check.
  std::function<std::string(bool trained)> workdir_problem = {};
};

// Parses "2:8" into least_ranks and most_ranks. Throws Error(Exit::usage) "--elastic 2:x: error:
// ...".
void parse_elastic(const std::string& text, LaunchOptions& options);

// Returns the slots (HostPlace::slot) of this host's next `count` ranks, in ascending order: those
// whose ranks have failed least often. failures[s] counts the failures in slot s.
std::vector<int> choose_slots(const std::vector<int>& failures, int count);

// Runs the ranks of this host and returns the exit code of the process. It is 0 if all ranks
// succeeded, or if one did and the others only hung or ended with 7: the run is complete then.
// Otherwise it is the code of one rank (128 + signal if a signal killed it), chosen in this order:
//   1. of the rank that failed first, with a code of its own
//   2. of a rank that saved and stopped after a signal
//   3. code 7, which only says that another rank failed
// Blocks the signals of this thread from the start and handles them itself. SIGCHLD must not be
// ignored (install_signal_handlers()). Throws Error(Exit::usage, peer, memory) before any rank was
// started. Throws Error(Exit::peer) after its ranks have ended, if the other nodes have continued
// without this one.
int launch(const LaunchOptions& options);

}  // namespace bv
