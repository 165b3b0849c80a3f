// Clocks, and waiting for something to happen.
#pragma once

#include <unistd.h>

#include <chrono>
#include <ctime>

namespace bv::test {

// A limit in seconds for operations that must not hang. It is far above their duration on a busy
// machine, so it only distinguishes "it ended" from "it would have waited forever".
inline constexpr double kWatchdog = 120;

// Seconds of a monotonic clock that is the same in all processes of this machine.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// CPU seconds that this process has used, on all its threads. Unlike now(), other programs on a
// busy machine hardly change it.
inline double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Calls condition() every few milliseconds until it is true or `limit` seconds have passed. Returns
// its last result.
template <class Condition>
bool wait_until(const Condition& condition, double limit = kWatchdog) {
  for (const double end = now() + limit; !condition() && now() < end;) ::usleep(5000);
  return condition();
}

}  // namespace bv::test
