// Clocks, and waiting for something to happen.
#pragma once

#include <unistd.h>

#include <chrono>
#include <ctime>

namespace bv::test {

// A limit in seconds for what must not hang. Far above the time that it takes on a busy machine, so
// that it only tells "it came to an end" from "it would have waited forever".
inline constexpr double kWatchdog = 120;

// Seconds of a clock that never goes back and is the same in all processes of this machine.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// CPU seconds that this process has used, on all its threads. Unlike now(), other programs on a
// busy machine hardly change it.
inline double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Asks condition() every few milliseconds until it is true or `limit` seconds have passed. Returns
// its last answer.
template <class Condition>
bool wait_until(const Condition& condition, double limit = kWatchdog) {
  for (const double end = now() + limit; !condition() && now() < end;) ::usleep(5000);
  return condition();
}

}  // namespace bv::test
