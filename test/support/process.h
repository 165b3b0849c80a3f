// Child processes, and the kernel's information about processes (/proc).
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "test/support/clock.h"

namespace bv::test {

// Variables that are added to the environment of a child. The last value of a name counts.
using Environment = std::vector<std::pair<std::string, std::string>>;

// What a child gets unless this process or the test sets it. Children skip no checkpoints that are
// due too often (lib/ckpt/save_queue.h), because how many they skip depends on the disk.
inline const Environment kForChildren = {{"BVTRAIN_SAVE_BUDGET", "1e6"}};

// How a child process ended.
struct Finished {
  int code = -1;  // the exit code, or 128 + the signal that killed it
  std::string out, err;
  double seconds = 0;   // from its start until wait() found that it had ended
  double peak_mib = 0;  // peak resident memory
};

// A child process whose stdout and stderr go to temporary files. It is killed when the thread that
// started it ends, so that a test that is interrupted leaves no run behind.
class Process {
 public:
  // Starts `program` with `argv`, whose first entry is the name that the program sees as its own.
  // own_group: in a separate process group, which signals from a terminal do not reach.
  Process(const std::string& program, const std::vector<std::string>& argv,
          const Environment& environment, bool own_group = false);
  // Takes over a child of this process that writes to these temporary files.
  Process(int pid, std::string out_file, std::string err_file);
  Process(Process&& other) noexcept;
  ~Process();  // kills the child if it still runs

  int pid() const { return pid_; }
  void kill(int signal) const;
  std::string output() const;  // its stdout so far
  std::string errors() const;  // its stderr so far
  // Waits for the first complete line of its stdout and returns it. Throws std::runtime_error after
  // kWatchdog seconds.
  std::string first_line() const;
  // Waits for the end of the process. Kills it after `limit` seconds.
  Finished wait(double limit = 600);

 private:
  int pid_ = -1;
  std::string out_file_, err_file_;
  double started_ = 0;
};

// Returns the state letter of a process, such as 'R', and its parent. The state is 0 if there is no
// such process.
std::pair<char, int> state_of(int pid);
// Returns the children of a process, without zombies.
std::set<int> children_of(int pid);
// Returns the processes whose command line contains `text`, without zombies and this process.
std::set<int> processes_with(const std::string& text);
// Waits until all these processes are dead, whether or not their parents have read their exit
// codes. Returns false after `seconds`.
bool gone(const std::set<int>& pids, double seconds);

}  // namespace bv::test
