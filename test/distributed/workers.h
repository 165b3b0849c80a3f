// Ranks as real processes, for the tests of lib/distributed: this test program starts itself again
// as a worker. The worker runs a hidden test case (worker_test.cc), which plays the role $DIST_ROLE
// and never returns to Catch.
#pragma once

#include <catch2/catch.hpp>

#include <map>
#include <string>
#include <vector>

#include "lib/distributed/launch/rank_layout.h"
#include "lib/distributed/store.h"
#include "test/support/process.h"
#include "test/support/sockets.h"
#include "test/support/text.h"

namespace bv::test {

using Variables = std::map<std::string, std::string>;

inline constexpr const char* kWorkerCase = "worker";

// This program in the role `role`, with `variables` added to the environment.
class Worker : public Process {
 public:
  Worker(const std::string& role, const Variables& variables);
  // Waits for its end. Kills it after kWatchdog seconds, so that a worker that hangs fails the test
  // by its exit code.
  Finished wait() { return Process::wait(kWatchdog); }
};

// The value of BVTRAIN_SILENCE for tests that wait until a stopped rank or store counts as silent.
// The other tests have a longer one: a busy machine may hold up a rank for seconds.
inline constexpr const char* kShortSilence = "4";

// Starts bvtrain's launcher with short heartbeats.
Worker launched(Variables more);
// Returns the process of a rank of this launcher, -1 if there is none.
int process_of(const Worker& launcher, int rank);

// Several launchers of one run, as on several hosts, that meet at a free port.
struct Hosts {
  Variables all;
  explicit Hosts(Variables more, int count = 2);
  Worker start(const char* node) const;
};

// Returns the variables of rank `rank` as torchrun sets them, with short heartbeats.
Variables rank_variables(int rank, int size, int port);
// Starts `size` workers as the ranks of one group.
std::vector<Worker> start_ranks(const std::string& role, int size, const Variables& more = {});
// Returns what a process has written to stderr, without the lines that say for whom it waits: on a
// busy machine it may wait long enough to print them.
std::string without_waits(const std::string& err);
std::vector<Finished> wait_all(std::vector<Worker>& workers);
// Connects to the store of a group that has started, as a rank with this layout does.
Store store_of(const RankLayout& layout);

}  // namespace bv::test
