// Named points at which a test can kill the process, as kill -9 does, make it sleep, or corrupt its
// memory; and system calls that a test can disable. Environment variables:
//   BVTRAIN_CRASH_AT=<point>:<n>             die at the n-th arrival at <point>
//   BVTRAIN_SLEEP_AT=<point>:<n>:<seconds>   sleep at the n-th arrival
//   BVTRAIN_SLEEP_AT=<point>:<n>+:<seconds>  sleep at the n-th and all later arrivals
//   BVTRAIN_FLIP_AT=<point>:<n>              flip a bit of the weights at the n-th arrival
//   BVTRAIN_WITHOUT=<call>,<call>            the file system lacks the call: "link", "exchange", or
//                                            "flock" for other hosts
//   BVTRAIN_RETRY_AFTER=<seconds>            how soon a failed write is tried again
//   BVTRAIN_LOCK_BEAT=<seconds>              WorkdirLock::kBeat
//   BVTRAIN_SAVE_BUDGET=<seconds>            replaces SaveQueue::kBurst; a large one skips no save
//   BVTRAIN_BATCH_LIMIT=<bytes>              a run saves a bad step's batch only if its images take
//                                            at most this
// Without these variables a crash point costs two look-ups in the environment.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <thread>

namespace bv {

namespace crash_detail {

// Returns what follows "<point>:" in the environment's `variable`; null if it names another point.
inline const char* order_for(const char* variable, std::string_view point) {
  const char* text = std::getenv(variable);
  if (text == nullptr || !std::string_view(text).starts_with(point)) return nullptr;
  text += point.size();
  return *text == ':' ? text + 1 : nullptr;
}

}  // namespace crash_detail

inline void crash_point(std::string_view point) {
  static std::atomic<int> crash_arrivals = 0, sleep_arrivals = 0;
  if (const char* order = crash_detail::order_for("BVTRAIN_CRASH_AT", point);
      order && ++crash_arrivals == std::atoi(order)) {
    ::kill(::getpid(), SIGKILL);
    ::pause();
  }
  if (const char* order = crash_detail::order_for("BVTRAIN_SLEEP_AT", point)) {
    char* rest = nullptr;
    const long first = std::strtol(order, &rest, 10);
    const bool again = *rest == '+';
    if (again) ++rest;
    const int arrival = ++sleep_arrivals;
    if (*rest == ':' && (arrival == first || (again && arrival > first)))
      std::this_thread::sleep_for(std::chrono::duration<double>(std::atof(rest + 1)));
  }
}

// Returns whether the caller must flip a bit at this arrival.
inline bool flips_bit(std::string_view point) {
  static std::atomic<int> arrivals = 0;
  const char* order = crash_detail::order_for("BVTRAIN_FLIP_AT", point);
  return order && ++arrivals == std::atoi(order);
}

// Returns whether the test has disabled the call.
inline bool is_missing(std::string_view call) {
  const char* text = std::getenv("BVTRAIN_WITHOUT");
  return text != nullptr && std::string_view(text).find(call) != std::string_view::npos;
}

namespace crash_detail {

inline std::optional<double> number_from(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? std::nullopt : std::optional(std::atof(text));
}

}  // namespace crash_detail

// Return what BVTRAIN_RETRY_AFTER, BVTRAIN_LOCK_BEAT and BVTRAIN_SAVE_BUDGET say, in seconds, and
// BVTRAIN_BATCH_LIMIT, in bytes.
inline std::optional<double> retry_wait() {
  return crash_detail::number_from("BVTRAIN_RETRY_AFTER");
}
inline std::optional<double> lock_beat() { return crash_detail::number_from("BVTRAIN_LOCK_BEAT"); }
inline std::optional<double> save_budget() {
  return crash_detail::number_from("BVTRAIN_SAVE_BUDGET");
}
inline std::optional<double> bad_batch_limit() {
  return crash_detail::number_from("BVTRAIN_BATCH_LIMIT");
}

}  // namespace bv
