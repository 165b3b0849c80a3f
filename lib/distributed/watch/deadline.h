// A time limit on c10d calls that have no time-out.
#pragma once

#include <memory>
#include <string>

namespace bv {

// Ends the process (exit code 7, `line`) unless the object is destroyed within `seconds`. Time in
// which the process itself was stopped (Ctrl-Z, a debugger) does not count.
class Deadline {
 public:
  Deadline(double seconds, std::string line);
  ~Deadline();
  Deadline(const Deadline&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bv
