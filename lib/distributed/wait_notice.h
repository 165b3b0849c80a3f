// When to say that this process waits for others: a wrong host or port must not look like a hang.
#pragma once

#include <chrono>

namespace bv {

class WaitNotice {
 public:
  // A wait of `seconds` is worth a line.
  explicit WaitNotice(double seconds = 5) : limit_(seconds) {}
  // Call it while waiting. Returns true once, after that time.
  bool due() {
    if (done_ || Clock::now() - begun_ < limit_) return false;
    return done_ = true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  const std::chrono::duration<double> limit_;
  const Clock::time_point begun_ = Clock::now();
  bool done_ = false;
};

}  // namespace bv
