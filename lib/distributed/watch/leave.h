// Ends of a process that nothing can hold up.
#pragma once

#include <memory>
#include <string>

#include "lib/util/error.h"

namespace bv {

// Exits the process with `code` after writing `line` to stderr and the log, whatever the other
// threads do: no destructor runs. For failures between processes only.
[[noreturn]] void leave_now(Exit code, const std::string& line);

// Ends the process (exit 7, `line`) unless it is destroyed within `seconds`, without those in which
// the process was stopped: for calls of c10d that know no time-out of their own.
class Alarm {
 public:
  Alarm(double seconds, std::string line);
  ~Alarm();
  Alarm(const Alarm&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bv
