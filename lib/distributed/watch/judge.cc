#include "lib/distributed/watch/judge.h"

#include <algorithm>
#include <charconv>

#include "lib/util/error.h"

namespace bv {
namespace {

constexpr size_t kNames = 512;
constexpr int kSlowBeats = 3;
constexpr double kSlowSeconds = 0.01;  // rank 0's bookkeeping is a part of the shortest steps
constexpr size_t kSteps = 64;
// A dead process may have said why it ends, or its launcher may know: both are told in less.
constexpr double kDeadGrace = 1.0;  // seconds

bool is_long(const Heartbeat& beat) {
  return !beat.phase.empty() && beat.phase != kEnding && beat.phase != kEnded;
}

// 2.34, 61.5, 3601
std::string seconds_text(double seconds) {
  return seconds < 100 ? fmt::format("{:.3g}", seconds) : fmt::format("{:.0f}", seconds);
}

}  // namespace

std::string Accusation::text() const { return fmt::format("{}\t{}", rank, cause); }

std::optional<Accusation> Accusation::parse(std::string_view text) {
  const size_t tab = text.find('\t');
  if (tab == std::string_view::npos || text.size() > 8192) return std::nullopt;
  Accusation accusation;
  const auto [end, error] = std::from_chars(text.data(), text.data() + tab, accusation.rank);
  if (error != std::errc() || end != text.data() + tab) return std::nullopt;
  accusation.cause = std::string(text.substr(tab + 1));
  return accusation;
}

Judge::Judge(int rank, int size, const Bounds& bounds, std::function<bool(const Heartbeat&)> dead)
    : rank_(rank), bounds_(bounds), dead_(std::move(dead)), peers_(static_cast<size_t>(size)) {}

void Judge::see(int rank, const Heartbeat& beat, double now) {
  Peer& peer = peers_.at(static_cast<size_t>(rank));
  if (!peer.beat || peer.beat->counter != beat.counter) peer.changed = now;
  if (!peer.beat || peer.beat->begun != beat.begun) peer.rose = now;
  // Behind a checkpoint it has as much time for the next collective as behind a step.
  if (peer.beat && peer.beat->phase != beat.phase) peer.behind = -1;
  peer.beat = beat;
  step_time_ = std::max(step_time_, beat.step_time);
}

void Judge::forgive(double now) {
  for (Peer& peer : peers_) {
    if (peer.beat) peer.changed = peer.rose = now;
    peer.dead = peer.behind = -1;
  }
}

const Heartbeat* Judge::beat(int rank) const {
  if (rank < 0 || static_cast<size_t>(rank) >= peers_.size()) return nullptr;
  const auto& beat = peers_[static_cast<size_t>(rank)].beat;
  return beat ? &*beat : nullptr;
}

double Judge::time_out() const {
  // Before steps are measured their length is anybody's guess.
  return step_time_ <= 0 ? bounds_.startup
                         : std::max(bounds_.least_step, bounds_.step_factor * step_time_);
}

std::optional<Accusation> Judge::accuse(const Heartbeat& mine, double waiting, double now) {
  step_time_ = std::max(step_time_, mine.step_time);
  if (auto found = dead_or_silent(mine, now)) return found;
  return late(mine, waiting, now);
}

std::optional<Accusation> Judge::dead_or_silent(const Heartbeat& mine, double now) {
  // At the end, ranks leave one after the other: who is at the last barrier too may be gone.
  const auto may_be_gone = [&](const Heartbeat& beat) {
    return beat.phase == kEnded || (beat.phase == kEnding && mine.phase == kEnding);
  };
  std::optional<Accusation> found;
  double oldest = now;
  for (size_t r = 0; r < peers_.size(); ++r) {
    Peer& peer = peers_[r];
    if (static_cast<int>(r) == rank_ || !peer.beat || peer.beat->phase == kEnded) continue;
    if (may_be_gone(*peer.beat) || !dead_(*peer.beat)) {
      peer.dead = -1;
    } else {
      if (peer.dead < 0) peer.dead = now;
      if (now - peer.dead >= std::min(kDeadGrace, bounds_.silence / 2))
        return Accusation{static_cast<int>(r), "died"};
    }
    if (now - peer.changed > bounds_.silence && peer.changed < oldest) {
      oldest = peer.changed;
      found = Accusation{static_cast<int>(r),
                         fmt::format("gave no sign for {} s", seconds_text(now - peer.changed))};
    }
  }
  return found;
}

std::optional<Accusation> Judge::late(const Heartbeat& mine, double waiting, double now) {
  int64_t newest = mine.begun;
  for (const Peer& peer : peers_)
    if (peer.beat) newest = std::max(newest, peer.beat->begun);
  bool somebody_behind = mine.begun < newest;
  for (size_t r = 0; r < peers_.size(); ++r) {
    Peer& peer = peers_[r];
    if (static_cast<int>(r) == rank_ || !peer.beat) continue;
    const Heartbeat& beat = *peer.beat;
    if (beat.begun >= newest) {
      peer.behind = -1;
      continue;
    }
    somebody_behind = true;
    if (peer.behind < 0 || beat.begun != peer.begun) {
      peer.behind = now;
      peer.begun = beat.begun;
    }
    const double limit = is_long(beat) ? std::max(time_out(), bounds_.phase) : time_out();
    if (now - peer.behind > limit) {
      const std::string phase = is_long(beat) ? fmt::format(" in '{}'", beat.phase) : "";
      return Accusation{static_cast<int>(r),
                        fmt::format("is alive{} but kept the others waiting for {} s", phase,
                                    seconds_text(now - peer.behind))};
    }
  }
  return somebody_behind || waiting < 0 ? std::nullopt : lost(mine, waiting, now);
}

// All are there and yet it does not end: messages get lost. Known only to who sees all ranks.
std::optional<Accusation> Judge::lost(const Heartbeat& mine, double waiting, double now) const {
  double since = waiting;
  bool in_phase = is_long(mine);
  for (size_t r = 0; r < peers_.size(); ++r) {
    const Peer& peer = peers_[r];
    if (static_cast<int>(r) == rank_) continue;
    if (!peer.beat) return std::nullopt;
    since = std::max(since, peer.rose);
    in_phase |= is_long(*peer.beat);
  }
  const double limit = in_phase ? std::max(time_out(), bounds_.phase) : time_out();
  if (now - since <= limit + 2 * bounds_.heartbeat) return std::nullopt;
  return Accusation{-1, fmt::format("collective {} ({}) was joined by all ranks but did not end in "
                                    "{} s: does the network lose packets?",
                                    mine.begun, mine.what, seconds_text(now - since))};
}

const Heartbeat& Judge::latest(int rank, const Heartbeat& mine) const {
  const Heartbeat* seen = beat(rank);
  return rank == rank_ || !seen ? mine : *seen;
}

std::string Judge::missing(int64_t begun, int64_t newest) const {
  const int64_t number = begun + 1;
  for (const auto& [known, what] : names_)
    if (known == number) return fmt::format("it never joined collective {} ({})", number, what);
  for (const Peer& peer : peers_)
    if (peer.beat && peer.beat->begun == number)
      return fmt::format("it never joined collective {} ({})", number, peer.beat->what);
  return fmt::format("it never joined collective {}{}", number,
                     newest < number ? ", which nobody had begun yet" : "");
}

std::string Judge::line(const Accusation& accusation, const Heartbeat& mine) const {
  if (accusation.rank < 0) return "[distributed] " + accusation.cause;
  const bool known = accusation.rank == rank_ || beat(accusation.rank) != nullptr;
  if (!known)
    return fmt::format("[distributed] rank {} {} before it joined the group", accusation.rank,
                       accusation.cause);
  const Heartbeat& culprit = latest(accusation.rank, mine);
  int64_t newest = mine.begun;
  for (const Peer& peer : peers_)
    if (peer.beat) newest = std::max(newest, peer.beat->begun);
  const int64_t begun = std::max(culprit.begun, joined_);
  const int64_t last = last_step(culprit, begun);
  const std::string step =
      last < 0 ? "it had finished no step" : fmt::format("its last step was {}", last);
  return fmt::format("[distributed] rank {} ({}, pid {}) {}; {}; {}", accusation.rank, culprit.host,
                     culprit.pid, accusation.cause, step, missing(begun, newest));
}

std::optional<Judge::Slow> Judge::slow(const Heartbeat& mine) {
  std::vector<double> times;
  for (size_t r = 0; r < peers_.size(); ++r) {
    const double time = static_cast<int>(r) == rank_ ? mine.own_time
                        : peers_[r].beat             ? peers_[r].beat->own_time
                                                     : 0;
    if (time <= 0) return std::nullopt;
    times.push_back(time);
  }
  std::vector<double> sorted = times;
  std::sort(sorted.begin(), sorted.end());
  // The lower of the two in the middle: of two ranks, the slow one is compared with the other.
  const double median = sorted[(sorted.size() - 1) / 2];
  for (size_t r = 0; r < peers_.size(); ++r) {
    Peer& peer = peers_[r];
    const int64_t counter = latest(static_cast<int>(r), mine).counter;
    if (times[r] <= bounds_.slow_ratio * median || times[r] - median < kSlowSeconds) {
      peer.slow_beats = 0;
    } else if (counter != peer.slow_counter) {
      ++peer.slow_beats;
      peer.slow_counter = counter;
    }
    if (peer.slow_beats < kSlowBeats || peer.warned) continue;
    peer.warned = true;
    return Slow{static_cast<int>(r), times[r] / median};
  }
  return std::nullopt;
}

void Judge::begun(int64_t number, const std::string& what) {
  names_.emplace_back(number, what);
  if (names_.size() > kNames) names_.pop_front();
}

void Judge::stepped(int64_t step, int64_t begun) {
  steps_.emplace_back(step, begun);
  if (steps_.size() > kSteps) steps_.pop_front();
}

// A rank that joined all collectives of a step counts as having finished it.
int64_t Judge::last_step(const Heartbeat& culprit, int64_t begun) const {
  int64_t step = culprit.step;
  for (const auto& [finished, until] : steps_)
    if (until <= begun) step = std::max(step, finished);
  return step;
}

}  // namespace bv
