// What each rank publishes about itself every two seconds, as one line in the store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace bv {

struct Heartbeat {
  int64_t counter = 0;      // increases with every heartbeat
  int64_t step = -1;        // the last finished step; -1: none yet
  int64_t begun = 0;        // collectives begun so far
  std::string what;         // name of the last one begun
  std::string phase;        // a long phase ("checkpoint"), kEnding, kEnded, or ""
  double step_time = 0;     // median seconds of the last steps; 0: not known yet
  double compute_time = 0;  // the same without waiting for other ranks
  std::string host;         // for messages
  int pid = 0;              // on that host
  // Identifies the kernel boot and the pid namespace: where it is equal, equal pids mean the same.
  std::string machine;
  uint64_t started = 0;  // start time of the process in clock ticks, because pids are reused

  std::string text() const;  // one line, fields separated by tabs
  // Returns nothing if `text` is not a heartbeat.
  static std::optional<Heartbeat> parse(std::string_view text);
};

// Two values of Heartbeat::phase for the orderly end of a run.
inline constexpr const char* kEnding = "ending";  // in the last barrier
inline constexpr const char* kEnded = "ended";    // after it

// A long phase in which a rank looks through its data. That may take hours without a collective.
inline constexpr const char* kIndexing = "data";

// The phase of a rank that has failed by its own error, from the error until it tells the others.
// Meanwhile it writes its rows and result.json.
inline constexpr const char* kFailing = "failing";

// Returns a heartbeat with host, pid, machine and started of this process.
Heartbeat heartbeat_of_this_process();
// Whether the process that sent `heartbeat` is certainly gone: it ran on the machine of `mine`, and
// its pid does not exist any more, belongs to another process, or is a zombie. False if unknown.
bool known_dead(const Heartbeat& heartbeat, const Heartbeat& mine);

}  // namespace bv
