// Named places at which a test can make the process die by kill -9, or sleep.
//   BVTRAIN_CRASH_AT=<point>:<n>             dies at the n-th arrival at <point>
//   BVTRAIN_SLEEP_AT=<point>:<n>:<seconds>   sleeps at it; <n>+ : also at all later arrivals
#pragma once

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

namespace bv {

namespace crash_detail {

// What stands behind "<point>:" in the environment's `variable`; null where another point is meant.
inline const char* wish(const char* variable, std::string_view point) {
  const char* text = std::getenv(variable);
  if (text == nullptr || !std::string_view(text).starts_with(point)) return nullptr;
  text += point.size();
  return *text == ':' ? text + 1 : nullptr;
}

}  // namespace crash_detail

inline void crash_point(std::string_view point) {
  static std::atomic<int> crash_arrivals = 0, sleep_arrivals = 0;
  if (const char* wanted = crash_detail::wish("BVTRAIN_CRASH_AT", point);
      wanted && ++crash_arrivals == std::atoi(wanted)) {
    ::kill(::getpid(), SIGKILL);
    ::pause();
  }
  if (const char* wanted = crash_detail::wish("BVTRAIN_SLEEP_AT", point)) {
    char* rest = nullptr;
    const long first = std::strtol(wanted, &rest, 10);
    const bool again = *rest == '+';
    if (again) ++rest;
    const int arrival = ++sleep_arrivals;
    if (*rest == ':' && (arrival == first || (again && arrival > first)))
      std::this_thread::sleep_for(std::chrono::duration<double>(std::atof(rest + 1)));
  }
}

}  // namespace bv
