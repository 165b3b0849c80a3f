// Decides from the heartbeats of all ranks which rank has failed or is slow. It does no I/O and
// reads no clock: the caller passes the time, so that tests can simulate hours. Watch feeds it.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/distributed/watch/heartbeat.h"
#include "lib/distributed/watch/timeouts.h"

namespace bv {

// Every FailureReport::cause that FailureReport::of_end() makes contains this.
inline constexpr const char* kEndedWith = "ended with exit code";

// Which rank failed, and why. Ranks exchange it as one line through the store.
struct FailureReport {
  int rank = -1;  // -1: none (the network), or not known
  // What follows "rank 2 ", such as "sent no heartbeat for 20 s"; a whole sentence if rank is -1.
  std::string cause;

  // Returns the report that `rank` ends with the exit code `code`, because of the error `line`,
  // which may be empty. With Exit::peer another rank is at fault, so the report blames no rank.
  static FailureReport of_end(int rank, int code, std::string_view line);
  std::string text() const;
  // Returns nothing if `text` is not a report.
  static std::optional<FailureReport> parse(std::string_view text);
};

// Every `now` is in seconds of one steady clock. `mine` is this rank's own current state.
class FailureDetector {
 public:
  // What this rank's main thread waits for.
  enum class WaitFor { collective, device };

  // For rank `rank` of `size`. `known_dead` says whether the process that sent a heartbeat is
  // certainly gone.
  FailureDetector(int rank, int size, const Timeouts& timeouts,
                  std::function<bool(const Heartbeat&)> known_dead);

  // Records the newest heartbeat read from `rank`.
  void record(int rank, const Heartbeat& heartbeat, double now);
  // Restarts the timers of all ranks. Call it when this process itself was stopped for a while,
  // because it could not see the others' heartbeats meanwhile.
  void reset_timers(double now);

  // Returns the failed rank, if any. Call it with every heartbeat. `waiting`: since when this rank
  // has been waiting for `what`; negative if it is not waiting.
  std::optional<FailureReport> find_failure(const Heartbeat& mine, double waiting, double now,
                                            WaitFor what = WaitFor::collective);
  // Returns the line that users see: "[distributed] rank 2 (n3, pid 1234) sent no heartbeat for 20
  // s; its last step was 41; it never joined collective 132 (gradients 3)".
  std::string message(const FailureReport& failure, const Heartbeat& mine) const;

  struct SlowRank {
    int rank;
    double ratio;  // its median computing time of a step over the median of all ranks
  };
  // Returns a rank that was slow in three recorded heartbeats in a row; each rank is returned once.
  // Returns nothing until all ranks have measured their steps. find_failure() records this rank's.
  std::optional<SlowRank> find_slow_rank();

  // Returns the last recorded heartbeat of `rank`, which may be this rank; null if there is none.
  const Heartbeat* last_heartbeat(int rank) const;
  // The current time-out of a collective, in seconds.
  double collective_timeout() const;

  // What this rank has seen itself. It is newer than the heartbeats of the others, which are up to
  // Timeouts::heartbeat old, so messages use it.
  void note_begun(int64_t number, const std::string& what);  // this rank began a collective
  // Collective `number` ended here, which proves that all ranks had joined it.
  void note_joined(int64_t number) { joined_ = std::max(joined_, number); }
  // This rank finished `step`; by then it had begun `begun` collectives.
  void note_step(int64_t step, int64_t begun);

 private:
  struct Peer {
    std::optional<Heartbeat> heartbeat;
    double changed = -1;        // when its counter last rose
    double dead = -1;           // since when its process is known to be gone; -1: it is not
    double behind = -1;         // since when it has not joined a collective that others began
    double moved = -1;          // when its collectives, its step or its phase last changed
    int64_t begun = 0;          // the collectives it had begun when it fell behind
    int slow_heartbeats = 0;    // in a row
    int64_t slow_counter = -1;  // counter of the newest of them
    bool warned = false;
  };
  std::optional<FailureReport> find_dead_or_silent(const Heartbeat& mine, double now);
  std::optional<FailureReport> find_late(const Heartbeat& mine, double waiting, double now,
                                         WaitFor what);
  std::optional<FailureReport> find_stuck(const Heartbeat& mine, double waiting, double now,
                                          WaitFor what) const;
  const Heartbeat& newest_of(int rank, const Heartbeat& mine) const;
  std::string missing_collective(int64_t begun, int64_t newest) const;
  int64_t last_step(const Heartbeat& failed, int64_t begun) const;

  int rank_;
  Timeouts timeouts_;
  std::function<bool(const Heartbeat&)> known_dead_;
  std::vector<Peer> peers_;                            // this rank too
  std::deque<std::pair<int64_t, std::string>> names_;  // of the newest collectives, by number
  // The newest steps, each with the number of collectives begun by its end.
  std::deque<std::pair<int64_t, int64_t>> steps_;
  int64_t joined_ = 0;    // the newest collective that all ranks are known to have joined
  double step_time_ = 0;  // the longest median seconds of a step that any rank has sent
};

}  // namespace bv
