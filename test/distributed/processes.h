// Real processes for the tests of lib/dist: this test program starts itself again as a worker, a
// hidden test case that plays the role of $DIST_ROLE (worker_test.cc) and never returns to Catch.
#pragma once

#include <catch2/catch.hpp>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace bv::test {

using Variables = std::map<std::string, std::string>;

inline constexpr const char* kWorkerCase = "worker";

struct Ended {
  int code = -1;  // exit code, or 128 + signal
  std::string out, err;
  double seconds = 0;  // since its start
};

// This program in the role `role`, with `variables` added to the environment. Killed by the
// destructor if it still runs.
class Worker {
 public:
  Worker(const std::string& role, const Variables& variables);
  Worker(Worker&&) noexcept;
  ~Worker();
  int pid() const { return pid_; }
  void kill(int signal) const;
  // Its first line of output, as soon as it is there.
  std::string first_line() const;
  std::string output() const;  // so far
  Ended wait();                // kills it after a minute

 private:
  int pid_ = -1;
  std::string out_file_, err_file_;
  double started_ = 0;
};

// Our launcher, with quick heartbeats.
Worker launched(Variables more);
// Launchers of several hosts, at a free port.
struct Hosts {
  Variables all;
  explicit Hosts(Variables more, int count = 2);
  Worker start(const char* node) const;
};

// State and parent of a process; state 0 where there is none.
std::pair<char, int> state_of(const std::string& pid);
std::set<int> children_of(int pid);
// Dead, whether or not somebody has asked for their exit codes.
bool gone(const std::set<int>& pids, double seconds);

size_t count(const std::string& text, const std::string& part);
int free_port();
// The variables of rank `rank` as torchrun sets them, with quick heartbeats.
Variables rank_variables(int rank, int size, int port);
// `size` workers as ranks of one group.
std::vector<Worker> start_ranks(const std::string& role, int size, const Variables& more = {});
std::vector<Ended> wait_all(std::vector<Worker>& workers);
double now();

}  // namespace bv::test
