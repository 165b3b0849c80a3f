// Who holds the group up: decides from the ranks' beats and the reader's own clock. Does no I/O
// and reads no clock, so that it can be tested by the second.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/distributed/watch/heartbeat.h"

namespace bv {

// Bounds in seconds.
struct Bounds {
  double startup = 600;     // until all ranks are there, and for steps before any was measured
  double heartbeat = 2;     // between two beats
  double silence = 20;      // without a beat: dead or stopped
  double least_step = 60;   // the time-out of a collective is the larger of this ...
  double step_factor = 20;  // ... and so many median steps
  double phase = 3600;      // a long phase (start, checkpoint, evaluation) may keep others waiting
  double slow_ratio = 2;    // a rank that computes longer than so many medians is warned about
};

struct Accusation {
  int rank = -1;      // -1: nobody in particular (the network)
  std::string cause;  // "gave no sign for 20 s"
  std::string text() const;
  static std::optional<Accusation> parse(std::string_view);
};

class Judge {
 public:
  // `dead` tells for sure that a rank's process is gone (known_dead).
  Judge(int rank, int size, const Bounds& bounds, std::function<bool(const Heartbeat&)> dead);

  void see(int rank, const Heartbeat& beat, double now);
  // The reader itself was stopped for a while: all clocks start anew.
  void forgive(double now);

  // `mine` is the reader's own state, `waiting` since when its oldest collective has been waited
  // for (< 0: it waits for none).
  std::optional<Accusation> accuse(const Heartbeat& mine, double waiting, double now);
  // "[distributed] rank 2 (n3, pid 1234) gave no sign for 20 s; its last step was 41; it never joined
  // collective 132 (gradients 3)"
  std::string line(const Accusation& accusation, const Heartbeat& mine) const;

  struct Slow {
    int rank;
    double ratio;  // its median seconds of computing over the median of all ranks
  };
  // Each rank that was slow in three beats in a row, once. Nothing before all have measured steps.
  std::optional<Slow> slow(const Heartbeat& mine);

  const Heartbeat* beat(int rank) const;  // null: not seen yet
  double time_out() const;                // of a collective now

  // What the reader itself did, for messages: it began collective `number`; saw the end of one that
  // can't end before all ranks joined it; finished a step. A beat is up to a heartbeat old, so this
  // tells more of the others than their beats do.
  void begun(int64_t number, const std::string& what);
  void joined(int64_t number) { joined_ = std::max(joined_, number); }
  void stepped(int64_t step, int64_t begun);

 private:
  struct Peer {
    std::optional<Heartbeat> beat;
    double changed = -1;        // when its counter last rose, by the reader's clock
    double dead = -1;           // since when it is known to be dead
    double behind = -1;         // since when it lags behind a collective that others began
    double rose = -1;           // when it was first seen to have begun its newest collective
    int64_t begun = 0;          // when it fell behind
    int slow_beats = 0;         // in a row
    int64_t slow_counter = -1;  // of the newest of them
    bool warned = false;
  };
  std::optional<Accusation> dead_or_silent(const Heartbeat& mine, double now);
  std::optional<Accusation> late(const Heartbeat& mine, double waiting, double now);
  std::optional<Accusation> lost(const Heartbeat& mine, double waiting, double now) const;
  const Heartbeat& latest(int rank, const Heartbeat& mine) const;
  std::string missing(int64_t begun, int64_t newest) const;
  int64_t last_step(const Heartbeat& culprit, int64_t begun) const;

  int rank_;
  Bounds bounds_;
  std::function<bool(const Heartbeat&)> dead_;
  std::vector<Peer> peers_;
  std::deque<std::pair<int64_t, std::string>> names_;  // of the newest collectives
  std::deque<std::pair<int64_t, int64_t>> steps_;  // the newest, with the collectives until then
  int64_t joined_ = 0;                             // by all ranks
  double step_time_ = 0;
};

}  // namespace bv
