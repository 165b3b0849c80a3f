// One rank as a child process of the launcher: starts this program again, reads its stderr, and
// records how it ended.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace bv {

struct RankProcess {
  int rank = 0;
  int slot = 0;         // HostPlace::slot (lib/device/devices.h)
  int pid = -1;         // -1: not running
  int stderr_fd = -1;   // our end of its stderr; -1: it writes to our stderr (the first rank)
  std::string partial;  // an unfinished line of its stderr
  // The error lines of the process, and the lines after them. They are printed later, except lines
  // that another rank has printed too.
  std::vector<std::string> held_lines;
  double held_since = 0;     // monotonic seconds at which the first of them came
  int code = -1;             // exit code, or 128 + signal; -1: still running
  int signal = 0;            // the signal that ended it; 0: none
  double killed_at = -1;     // monotonic seconds at which we sent it SIGKILL; -1: we did not
  bool left_behind = false;  // SIGKILL has not ended it
  bool reported = false;     // a report in the store says that it has failed

  bool killed_by_us() const { return killed_at >= 0; }
};

// How to start a rank.
struct RankStart {
  std::vector<std::string> argv;                   // argv[0] is only shown by ps
  std::map<std::string, std::string> environment;  // added to our environment or replacing parts
  std::vector<int> cpus;                           // CPU affinity; empty: the same as ours
  bool quiet = false;  // drops stdout and sends stderr to us (all ranks but the first)
};

// Returns the path by which this process was started; "" if it is not known.
std::string path_at_start();

// Returns a path that executes this program. This is `link` if that can be executed, because
// `link` leads to this program even if another file has replaced the program's file. Otherwise
// it is `path`. Throws Error(Exit::usage) if neither can be executed.
std::string own_program(const std::string& link = "/proc/self/exe",
                        const std::string& path = path_at_start());

// Starts own_program(). The child gets SIGKILL when this thread ends. It has its own process
// group, so that Ctrl-C reaches the launcher only, which passes it on once. It has default signal
// handling, with stop_signals() blocked, and only the standard descriptors. Throws
// Error(Exit::memory) if no process can be created, and what own_program() throws.
void start(RankProcess& process, const RankStart& how);

// Reads what is available of its stderr. Prints its lines with "[rank 3] " before them, except
// error lines and those that follow them, which it holds back. Warnings are always printed. Returns
// false at the end of file.
bool pass_output(RankProcess& process);

// Sends SIGKILL to the process if it still runs.
void kill_now(RankProcess& process);
// Gives up on a process that SIGKILL did not end: from now on it counts as killed, although it
// still exists as our child. Returns the state of the process from /proc, such as 'D' (it waits in
// the kernel for a device or a file system), or '?' if the state is not known.
char leave_behind(RankProcess& process);

// Returns "exit code 5" or "signal 9 (SIGKILL)".
std::string end_text(const RankProcess& process);

// Divides `cpus` into `parts` contiguous lists whose sizes differ by at most one. With fewer CPUs
// than parts all lists are empty.
std::vector<std::vector<int>> divide_cpus(const std::vector<int>& cpus, int parts);
// Returns how many threads a rank starts whose part of divide_cpus() has `cpus` CPUs: its share of
// `cores`, the host's or those of a CPU quota, among `ranks` ranks. It is at most `cpus`, and at
// least 1.
int threads_of_rank(size_t cpus, int cores, int ranks);
// Returns the CPUs that this process may run on.
std::vector<int> allowed_cpus();

}  // namespace bv
