// Named places at which a test can make the process die by kill -9: with
// BVTRAIN_CRASH_AT=<point>:<n> in the environment at the n-th arrival at <point>.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

namespace bv {

inline void crash_point(std::string_view point) {
  static std::atomic<int> arrivals = 0;
  const char* variable = std::getenv("BVTRAIN_CRASH_AT");
  if (variable == nullptr) return;
  const std::string_view wanted = variable;
  const size_t colon = wanted.rfind(':');
  if (wanted.substr(0, colon) != point) return;
  const int n = colon == std::string_view::npos ? 1 : std::atoi(variable + colon + 1);
  if (++arrivals == n) {
    ::kill(::getpid(), SIGKILL);
    ::pause();
  }
}

}  // namespace bv
