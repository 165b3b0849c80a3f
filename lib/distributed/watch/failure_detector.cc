#include "lib/distributed/watch/failure_detector.h"

#include <algorithm>
#include <charconv>

#include "lib/util/error.h"

namespace bv {
namespace {

constexpr size_t kNames = 512;           // collectives whose names are kept
constexpr size_t kSteps = 64;            // steps that are kept
constexpr size_t kLongestReport = 8192;  // bytes
constexpr int kSlowHeartbeats = 3;
// Seconds above the median. With a lower limit, rank 0's bookkeeping alone would make it slow.
constexpr double kSlowSeconds = 0.01;
// Seconds between finding a process dead and reporting it. The process itself or its launcher may
// be about to report a better reason; both take less than this.
constexpr double kDeadGrace = 1.0;

bool is_long(const Heartbeat& heartbeat) {
  return !heartbeat.phase.empty() && heartbeat.phase != kEnding && heartbeat.phase != kEnded &&
         heartbeat.phase != kFailing;
}

// Whether the rank has done something between the two heartbeats.
bool moved(const Heartbeat& before, const Heartbeat& after) {
  return before.begun != after.begun || before.step != after.step || before.phase != after.phase;
}

// 2.34, 61.5, 3601
std::string seconds_text(double seconds) {
  return seconds < 100 ? fmt::format("{:.3g}", seconds) : fmt::format("{:.0f}", seconds);
}

}  // namespace

FailureReport FailureReport::of_end(int rank, int code, std::string_view line) {
  const std::string cause =
      fmt::format("{} {}{}{}", kEndedWith, code, line.empty() ? "" : ": ", line);
  if (code == static_cast<int>(Exit::peer)) return {-1, fmt::format("rank {} {}", rank, cause)};
  return {rank, cause};
}

std::string FailureReport::text() const { return fmt::format("{}\t{}", rank, cause); }

std::optional<FailureReport> FailureReport::parse(std::string_view text) {
  const size_t tab = text.find('\t');
  if (tab == std::string_view::npos || text.size() > kLongestReport) return std::nullopt;
  FailureReport failure;
  const auto [end, error] = std::from_chars(text.data(), text.data() + tab, failure.rank);
  if (error != std::errc() || end != text.data() + tab) return std::nullopt;
  failure.cause = std::string(text.substr(tab + 1));
  return failure;
}

FailureDetector::FailureDetector(int rank, int size, const Timeouts& timeouts,
                                 std::function<bool(const Heartbeat&)> known_dead)
    : rank_(rank),
      timeouts_(timeouts),
      known_dead_(std::move(known_dead)),
      peers_(static_cast<size_t>(size)) {}

void FailureDetector::record(int rank, const Heartbeat& heartbeat, double now) {
  Peer& peer = peers_.at(static_cast<size_t>(rank));
  if (!peer.heartbeat || peer.heartbeat->counter != heartbeat.counter) peer.changed = now;
  if (!peer.heartbeat || moved(*peer.heartbeat, heartbeat)) peer.moved = now;
  // A rank that enters or leaves a long phase gets the full time-out for its next collective.
  if (peer.heartbeat && peer.heartbeat->phase != heartbeat.phase) peer.behind = -1;
  peer.heartbeat = heartbeat;
  step_time_ = std::max(step_time_, heartbeat.step_time);
}

void FailureDetector::reset_timers(double now) {
  for (Peer& peer : peers_) {
    if (peer.heartbeat) peer.changed = peer.moved = now;
    peer.dead = peer.behind = -1;
  }
}

const Heartbeat* FailureDetector::last_heartbeat(int rank) const {
  if (rank < 0 || static_cast<size_t>(rank) >= peers_.size()) return nullptr;
  const auto& heartbeat = peers_[static_cast<size_t>(rank)].heartbeat;
  return heartbeat ? &*heartbeat : nullptr;
}

double FailureDetector::collective_timeout() const {
  // The length of a step is unknown until one has been measured.
  return step_time_ <= 0 ? timeouts_.startup
                         : std::max(timeouts_.least_step, timeouts_.step_factor * step_time_);
}

std::optional<FailureReport> FailureDetector::find_failure(const Heartbeat& mine, double waiting,
                                                           double now, WaitFor what) {
  record(rank_, mine, now);
  if (auto found = find_dead_or_silent(mine, now)) return found;
  return find_late(mine, waiting, now, what);
}

std::optional<FailureReport> FailureDetector::find_dead_or_silent(const Heartbeat& mine,
                                                                  double now) {
  // At the end of a run, ranks exit one after the other. Once this rank is in the last barrier, a
  // rank that was seen there may have exited already.
  const auto may_be_gone = [&](const Heartbeat& heartbeat) {
    return heartbeat.phase == kEnded || (heartbeat.phase == kEnding && mine.phase == kEnding);
  };
  std::optional<FailureReport> found;
  double oldest = now;
  for (size_t r = 0; r < peers_.size(); ++r) {
    Peer& peer = peers_[r];
    if (static_cast<int>(r) == rank_ || !peer.heartbeat || peer.heartbeat->phase == kEnded)
      continue;
    if (may_be_gone(*peer.heartbeat) || !known_dead_(*peer.heartbeat)) {
      peer.dead = -1;
    } else {
      if (peer.dead < 0) peer.dead = now;
      if (now - peer.dead >= std::min(kDeadGrace, timeouts_.silence / 2))
        return FailureReport{static_cast<int>(r), "died"};
    }
    if (now - peer.changed > timeouts_.silence && peer.changed < oldest) {
      oldest = peer.changed;
      found = FailureReport{static_cast<int>(r), fmt::format("sent no heartbeat for {} s",
                                                             seconds_text(now - peer.changed))};
    }
  }
  return found;
}

std::optional<FailureReport> FailureDetector::find_late(const Heartbeat& mine, double waiting,
                                                        double now, WaitFor what) {
  int64_t newest = mine.begun;
  for (const Peer& peer : peers_)
    if (peer.heartbeat) newest = std::max(newest, peer.heartbeat->begun);
  bool somebody_behind = mine.begun < newest;
  for (size_t r = 0; r < peers_.size(); ++r) {
    Peer& peer = peers_[r];
    if (static_cast<int>(r) == rank_ || !peer.heartbeat) continue;
    const Heartbeat& heartbeat = *peer.heartbeat;
    if (heartbeat.begun >= newest) {
      peer.behind = -1;
      continue;
    }
    somebody_behind = true;
    if (peer.behind < 0 || heartbeat.begun != peer.begun) {
      peer.behind = now;
      peer.begun = heartbeat.begun;
    }
    const double limit =
        is_long(heartbeat) ? std::max(collective_timeout(), timeouts_.phase) : collective_timeout();
    if (now - peer.behind > limit) {
      const std::string phase = is_long(heartbeat) ? fmt::format(" in '{}'", heartbeat.phase) : "";
      return FailureReport{static_cast<int>(r),
                           fmt::format("is alive{} but kept the others waiting for {} s", phase,
                                       seconds_text(now - peer.behind))};
    }
  }
  return somebody_behind ? std::nullopt : find_stuck(mine, waiting, now, what);
}

// Finds that no rank is behind and yet no rank makes progress. If this rank waits for a collective
// or its device, the time limit is that of a step. If it blocks without telling the watch, the time
// limit is that of a long phase. Only a rank that watches all others can find this.
std::optional<FailureReport> FailureDetector::find_stuck(const Heartbeat& mine, double waiting,
                                                         double now, WaitFor what) const {
  const bool waits = waiting >= 0;
  if (!waits && mine.phase == kIndexing) return std::nullopt;
  double since = waiting;
  bool in_phase = false;
  for (const Peer& peer : peers_) {
    if (!peer.heartbeat) return std::nullopt;
    since = std::max(since, peer.moved);
    in_phase |= is_long(*peer.heartbeat);
  }
  const double limit =
      in_phase || !waits ? std::max(collective_timeout(), timeouts_.phase) : collective_timeout();
  if (now - since <= limit + 2 * timeouts_.heartbeat) return std::nullopt;
  const std::string seconds = seconds_text(now - since);
  const std::string collective = fmt::format("collective {} ({})", mine.begun, mine.what);
  if (!waits)
    return FailureReport{-1, fmt::format("no rank has made progress for {} s, since {}: does a "
                                         "device hang?",
                                         seconds, collective)};
  if (what == WaitFor::device)
    return FailureReport{-1,
                         fmt::format("no rank has made progress for {} s, since {}, and this one "
                                     "waits for its device: does a device or a collective hang?",
                                     seconds, collective)};
  return FailureReport{-1, fmt::format("{} was joined by all ranks but did not end in {} s: does "
                                       "the network lose packets?",
                                       collective, seconds)};
}

const Heartbeat& FailureDetector::newest_of(int rank, const Heartbeat& mine) const {
  const Heartbeat* seen = last_heartbeat(rank);
  return rank == rank_ || !seen ? mine : *seen;
}

std::string FailureDetector::missing_collective(int64_t begun, int64_t newest) const {
  const int64_t number = begun + 1;
  for (const auto& [known, what] : names_)
    if (known == number) return fmt::format("it never joined collective {} ({})", number, what);
  for (const Peer& peer : peers_)
    if (peer.heartbeat && peer.heartbeat->begun == number)
      return fmt::format("it never joined collective {} ({})", number, peer.heartbeat->what);
  return fmt::format("it never joined collective {}{}", number,
                     newest < number ? ", which no rank had started yet" : "");
}

std::string FailureDetector::message(const FailureReport& failure, const Heartbeat& mine) const {
  if (failure.rank < 0) return "[distributed] " + failure.cause;
  const bool known = failure.rank == rank_ || last_heartbeat(failure.rank) != nullptr;
  if (!known)
    return fmt::format("[distributed] rank {} {} before it joined the group", failure.rank,
                       failure.cause);
  const Heartbeat& failed = newest_of(failure.rank, mine);
  int64_t newest = mine.begun;
  for (const Peer& peer : peers_)
    if (peer.heartbeat) newest = std::max(newest, peer.heartbeat->begun);
  const int64_t begun = std::max(failed.begun, joined_);
  const int64_t last = last_step(failed, begun);
  const std::string step =
      last < 0 ? "it had finished no step" : fmt::format("its last step was {}", last);
  return fmt::format("[distributed] rank {} ({}, pid {}) {}; {}; {}", failure.rank, failed.host,
                     failed.pid, failure.cause, step, missing_collective(begun, newest));
}

std::optional<FailureDetector::SlowRank> FailureDetector::find_slow_rank() {
  std::vector<double> times;
  for (const Peer& peer : peers_) {
    if (!peer.heartbeat || peer.heartbeat->compute_time <= 0) return std::nullopt;
    times.push_back(peer.heartbeat->compute_time);
  }
  std::vector<double> sorted = times;
  std::sort(sorted.begin(), sorted.end());
  // With an even number of ranks, the lower of the two values in the middle. With two ranks, the
  // slow one is thus compared with the other one.
  const double median = sorted[(sorted.size() - 1) / 2];
  for (size_t r = 0; r < peers_.size(); ++r) {
    Peer& peer = peers_[r];
    const int64_t counter = peer.heartbeat->counter;
    if (times[r] <= timeouts_.slow_ratio * median || times[r] - median < kSlowSeconds) {
      peer.slow_heartbeats = 0;
    } else if (counter != peer.slow_counter) {
      ++peer.slow_heartbeats;
      peer.slow_counter = counter;
    }
    if (peer.slow_heartbeats < kSlowHeartbeats || peer.warned) continue;
    peer.warned = true;
    return SlowRank{static_cast<int>(r), times[r] / median};
  }
  return std::nullopt;
}

void FailureDetector::note_begun(int64_t number, const std::string& what) {
  names_.emplace_back(number, what);
  if (names_.size() > kNames) names_.pop_front();
}

void FailureDetector::note_step(int64_t step, int64_t begun) {
  steps_.emplace_back(step, begun);
  if (steps_.size() > kSteps) steps_.pop_front();
}

// A rank that has joined all collectives of a step counts as having finished it.
int64_t FailureDetector::last_step(const Heartbeat& failed, int64_t begun) const {
  int64_t step = failed.step;
  for (const auto& [finished, until] : steps_)
    if (until <= begun) step = std::max(step, finished);
  return step;
}

}  // namespace bv
