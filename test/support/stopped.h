// Whether long work looks for a signal.
#pragma once

#include <chrono>
#include <functional>

#include "lib/util/signals.h"
#include "test/support/child.h"

namespace bv::test {

// Returns whether `work` throws Stopped if it is asked to stop 2 ms after it has begun. It must
// take longer than that.
inline bool stops_early(const std::function<void()>& work) {
  constexpr int kStopped = 7;
  const int status = run_in_child([&] {  // the request cannot be taken back
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    stop_at(std::chrono::duration<double>(now).count() + 0.002);
    try {
      work();
    } catch (const Stopped&) {
      ::_exit(kStopped);
    }
  });
  return WIFEXITED(status) && WEXITSTATUS(status) == kStopped;
}

}  // namespace bv::test
