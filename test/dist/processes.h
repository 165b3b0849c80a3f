// Real processes for the tests of lib/dist: this test program starts itself again as a worker, a
// hidden test case that plays the role of $DIST_ROLE (worker_test.cc) and never returns to Catch.
#pragma once

#include <catch2/catch.hpp>

#include <map>
#include <string>
#include <vector>

namespace bv::dist::test {

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
  Ended wait();  // kills it after a minute

 private:
  int pid_ = -1;
  std::string out_file_, err_file_;
  double started_ = 0;
};

int free_port();
// The variables of rank `rank` as torchrun sets them, with quick heartbeats.
Variables rank_variables(int rank, int size, int port);
// `size` workers as ranks of one group.
std::vector<Worker> start_ranks(const std::string& role, int size, const Variables& more = {});
std::vector<Ended> wait_all(std::vector<Worker>& workers);
double now();

}  // namespace bv::dist::test
