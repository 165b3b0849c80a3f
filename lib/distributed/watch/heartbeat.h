// What each rank says of itself every other second, as one line in the store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace bv {

struct Heartbeat {
  int64_t counter = 0;   // rises with every heartbeat
  int64_t step = -1;     // the last finished step; -1: none yet
  int64_t begun = 0;     // collectives begun
  std::string what;      // name of the last one begun
  std::string phase;     // "", or a long phase ("checkpoint"), or one of the two below
  double step_time = 0;  // median seconds of the last steps; 0: not known yet
  double own_time = 0;   // of these, not waiting for others
  std::string host;      // for people
  int pid = 0;           // on that host
  std::string machine;   // kernel boot and pid namespace: equal where `pid` means the same
  uint64_t started = 0;  // the process's start time in clock ticks, since pids come again

  std::string text() const;                                 // one line, tab-separated
  static std::optional<Heartbeat> parse(std::string_view);  // nothing for what is no beat
};

inline constexpr const char* kEnding = "ending";  // at the last barrier of a good end
inline constexpr const char* kEnded = "ended";    // and behind it

// host, pid, machine and started of this process.
Heartbeat heartbeat_of_this_process();
// Whether the process is known to be gone: same machine, and no such process, another one under its
// pid, or a zombie. False where nothing is known.
bool known_dead(const Heartbeat& beat, const Heartbeat& mine);

}  // namespace bv
