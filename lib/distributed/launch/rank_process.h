// One rank as a child of the launcher: fork and exec of this program, its output and its end.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace bv {

struct RankProcess {
  int rank = 0, local_rank = 0;
  int pid = -1;         // -1: not running
  int errors = -1;      // our end of its stderr; -1: it writes to ours (the first rank)
  std::string partial;  // an unfinished line of it
  std::vector<std::string>
      held;            // its error lines, until it is known whether they say anything new
  int code = -1;       // exit code, or 128 + signal; -1: still running
  int signal = 0;      // that ended it
  bool by_us = false;  // we sent it SIGKILL
};

// What the program is started with.
struct RankStart {
  std::vector<std::string> argv;                   // argv[0] is for show
  std::map<std::string, std::string> environment;  // added to, or in place of, ours
  std::vector<int> cpus;                           // empty: as ours
  bool quiet = false;  // stdout is dropped and stderr comes to us (all ranks but the first)
};

// The program is /proc/self/exe. The child gets SIGKILL when this thread ends, a process group of
// its own (Ctrl-C reaches the launcher alone, which passes it on once), default signal handling,
// and no descriptor but the standard ones. Throws Error(Exit::memory) if there can't be another
// process.
void start(RankProcess& process, const RankStart& how);

// Reads what its stderr holds; lines go to ours with "[rank 3] " before them, error lines are held.
// False at the end of file.
bool pass_output(RankProcess& process);

// "exit code 5", "signal 9 (SIGKILL)"
std::string end_text(const RankProcess& process);

// The processors this process may run on, divided among `parts` as contiguous pieces whose sizes
// differ by one at most; empty lists where there are fewer processors than parts.
std::vector<std::vector<int>> divide_cpus(const std::vector<int>& cpus, int parts);
std::vector<int> allowed_cpus();

}  // namespace bv
