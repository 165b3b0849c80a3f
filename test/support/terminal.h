// bvtrain on a pseudo-terminal.
#pragma once

#include <regex>
#include <string>
#include <vector>

#include "test/support/process.h"

namespace bv::test {

// The content of a terminal after `text` was written to it.
struct Screen {
  std::vector<std::string> lines;  // those that ended, without escape sequences
  std::vector<std::string> drawn;  // each state of the last line that was redrawn in place
  size_t widest = 0;               // characters of the longest line that was drawn in place
};
Screen screen_of(const std::string& text);

// A running bvtrain whose stdin, stdout and stderr are a terminal.
class OnTerminal {
 public:
  // TERM is "xterm" and NO_COLOR is not set.
  OnTerminal(const std::vector<std::string>& args, int columns);
  ~OnTerminal();  // kills the child if it still runs
  OnTerminal(const OnTerminal&) = delete;

  bool ok() const { return pid_ > 0; }               // false: this machine has no pseudo-terminals
  const std::string& text() const { return text_; }  // what it has written so far
  // Reads until a line that is redrawn in place matches `pattern`. Returns false if bvtrain ends
  // before that, or after kWatchdog seconds.
  bool wait_for_drawn(const std::string& pattern);
  void kill(int signal) const;
  // Reads to the end and returns the exit code, or 128 + the signal. Kills it after kWatchdog
  // seconds.
  int wait();

 private:
  bool read_more();  // returns false at the end

  int pid_ = -1, terminal_ = -1;
  std::string text_;
};

}  // namespace bv::test
