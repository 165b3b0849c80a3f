#include "lib/distributed/watch/watch.h"

#include <algorithm>
#include <utility>

#include "lib/distributed/watch/deadline.h"
#include "lib/distributed/watch/watch_impl.h"
#include "lib/report/chrono.h"
#include "lib/report/log.h"

namespace bv {
namespace {

// Up to this many ranks, each rank watches all others. In a larger group, rank 0 watches all others
// and every other rank watches only kNeighbours ranks and rank 0, because the store serves its
// clients with one thread. kFailureKey shares one rank's finding with all ranks.
constexpr int kAllWatchAll = 64;
constexpr int kNeighbours = 16;
constexpr double kWatchPoll = 0.1;  // seconds between two checks whether to keep waiting
constexpr int kMostListed = 8;      // missing ranks in a message

std::vector<int> watched_ranks(int rank, int size) {
  std::vector<int> ranks;
  const int count = size <= kAllWatchAll || rank == 0 ? size - 1 : kNeighbours;
  for (int i = 1; i <= count; ++i) ranks.push_back((rank + i) % size);
  if (rank != 0 && std::find(ranks.begin(), ranks.end(), 0) == ranks.end()) ranks.push_back(0);
  return ranks;
}

}  // namespace

std::string heartbeat_key(int rank) { return fmt::format("heartbeat/{}", rank); }

Watch::Impl::Impl(const RankLayout& layout, const std::string& address, const Timeouts& timeouts,
                  const std::function<bool()>& stop)
    : layout(layout),
      timeouts(timeouts),
      where(fmt::format("{}:{}", address, layout.port)),
      watched(watched_ranks(layout.rank, layout.size)),
      mine(heartbeat_of_this_process()),
      detector(layout.rank, layout.size, timeouts,
               [mine = mine](const Heartbeat& heartbeat) { return known_dead(heartbeat, mine); }) {
  const Deadline deadline(timeouts.startup + kStoreGreeting,
                          fmt::format("[distributed] the store at {} accepts connections but "
                                      "does not answer: is it a run's store?",
                                      where));
  store = std::make_unique<Store>(address, layout.port, layout.token, timeouts.startup, stop);
  store->exchange(kFailureKey, "", kNoFailure);
}

Watch::Watch(const RankLayout& layout, const std::string& address, const Timeouts& timeouts,
             const std::function<bool()>& stop)
    : impl_(std::make_unique<Impl>(layout, address, timeouts, stop)) {
  impl_->last_answer = monotonic_seconds();
  impl_->heartbeat_thread = std::thread([this] { impl_->run_heartbeats(); });
  impl_->store_thread = std::thread([this] { impl_->watch_store(); });
}

Watch::~Watch() { stop(); }

std::vector<std::string> Watch::Impl::keys() const {
  std::vector<std::string> keys{kFailureKey};
  for (const int rank : watched) keys.push_back(heartbeat_key(rank));
  return keys;
}

// Reads the failure, if there is one, and the heartbeats of all watched ranks.
void Watch::Impl::read_heartbeats() {
  const std::vector<std::string> values = store->get_all(keys());
  const double read_at = monotonic_seconds();
  const bool failed = values.at(0) != kNoFailure;
  FailureReport failure{-1, "the run was aborted"};
  {
    const std::lock_guard lock(mutex);
    if (failed && last_sent) return;  // this process is ending already
    for (size_t i = 0; i < watched.size(); ++i)
      if (const auto heartbeat = Heartbeat::parse(values[i + 1]))
        detector.record(watched[i], *heartbeat, read_at);
    if (!failed) return;
    if (auto report = FailureReport::parse(values[0])) failure = std::move(*report);
    // A launcher reports any rank that ended with an error. If that rank had reached the last
    // barrier, and so has this one, this one can finish.
    const bool other = failure.rank != layout.rank;
    const Heartbeat* failed_rank = other ? detector.last_heartbeat(failure.rank) : nullptr;
    if (failed_rank && mine.phase == kEnding &&
        (failed_rank->phase == kEnding || failed_rank->phase == kEnded))
      return;
  }
  end_process(failure);
}

// Used until all ranks have joined: some heartbeats do not exist yet, and reading one would block.
void Watch::Impl::check_arrivals(double started) {
  std::vector<std::string> all;
  for (int rank = 0; rank < layout.size; ++rank) all.push_back(heartbeat_key(rank));
  if (store->has(all)) {
    read_heartbeats();
    const std::lock_guard lock(mutex);
    all_here = true;
    changed.notify_all();
    return;
  }
  if (const auto failure = FailureReport::parse(store->get(kFailureKey))) end_process(*failure);
  if (monotonic_seconds() - started <= timeouts.startup) return;
  std::string missing;
  int listed = 0;
  for (int rank = 0; rank < layout.size && listed <= kMostListed; ++rank) {
    if (store->has({all[static_cast<size_t>(rank)]})) continue;
    missing += (missing.empty() ? "" : ", ") +
               (++listed > kMostListed ? std::string("...") : std::to_string(rank));
  }
  // Tells the other ranks: they would otherwise report that they lost the store.
  const FailureReport failure{
      -1, fmt::format("only some of {} ranks joined within {:.3g} s; missing: {}", layout.size,
                      monotonic_seconds() - started, missing)};
  const std::string agreed = store->exchange(kFailureKey, kNoFailure, failure.text());
  end_process(FailureReport::parse(agreed).value_or(failure));
}

void Watch::Impl::check_ranks() {
  read_heartbeats();
  std::optional<FailureReport> failure;
  std::optional<FailureDetector::SlowRank> slow;
  std::string slow_line;
  {
    const std::lock_guard lock(mutex);
    if (last_sent) return;
    failure = detector.find_failure(mine, waiting, monotonic_seconds(),
                                    waits.empty() ? WaitFor::collective : waits.back());
    if (layout.rank == 0) slow = detector.find_slow_rank();
    if (slow) {
      const Heartbeat* heartbeat = detector.last_heartbeat(slow->rank);
      slow_line = fmt::format(
          "rank {} ({}, pid {}) is slow: its steps take {:.1f} times the "
          "median of the ranks",
          slow->rank, heartbeat->host, heartbeat->pid, slow->ratio);
    }
  }
  if (!slow_line.empty()) log::warn("{}", slow_line);
  if (!failure) return;
  // The first report wins; all ranks act on it.
  const std::string agreed = store->exchange(kFailureKey, kNoFailure, failure->text());
  end_process(FailureReport::parse(agreed).value_or(*failure));
}

void Watch::Impl::run_heartbeats() {
  heartbeat_loop();
  const std::lock_guard lock(mutex);
  heartbeats_ended = last_sent = true;
  changed.notify_all();
}

void Watch::Impl::heartbeat_loop() {
  const double started = monotonic_seconds();
  double last = started;
  // Polls faster while ranks join, so that a start does not wait for a whole heartbeat.
  double pause = std::min(0.02, timeouts.heartbeat);
  while (true) {
    std::string line, own_report;
    bool last_one = false, starting = false;
    {
      std::unique_lock lock(mutex);
      changed.wait_for(lock, Seconds(pause), [&] { return stopping || send_now; });
      send_now = false;
      last_one = stopping;
      starting = !all_here;
      ++mine.counter;
      // Such a long pause means that this process was itself stopped (Ctrl-Z, a debugger, suspend).
      // The other ranks were not silent; this one did not read their heartbeats.
      if (monotonic_seconds() - last > timeouts.heartbeat + timeouts.silence / 2)
        detector.reset_timers(monotonic_seconds());
      last = monotonic_seconds();
      line = mine.text();
      own_report = own_failure;
    }
    try {
      if (!own_report.empty()) store->exchange(kFailureKey, kNoFailure, own_report);
      store->set(heartbeat_key(layout.rank), line);
      if (!own_report.empty() || last_one) {
        // set() only sends; a request with an answer proves that it has arrived.
        store->has({heartbeat_key(layout.rank)});
        const std::lock_guard lock(mutex);
        last_sent = true;
        changed.notify_all();
      }
      if (last_one) return;
      if (starting)
        check_arrivals(started);
      else
        check_ranks();
    } catch (const std::exception&) {
      {
        const std::lock_guard lock(mutex);
        if (stopping || !own_report.empty()) return;
      }
      store_lost("is lost");
    }
    last_answer = monotonic_seconds();
    pause = starting ? std::min(timeouts.heartbeat, pause * 1.3) : timeouts.heartbeat;
  }
}

// The second thread: checks that the heartbeat thread gets answers.
void Watch::Impl::watch_store() {
  double last = monotonic_seconds();
  std::unique_lock lock(mutex);
  while (!heartbeats_ended) {
    changed.wait_for(lock, Seconds(timeouts.heartbeat), [&] { return heartbeats_ended; });
    const double time = monotonic_seconds();
    if (time - last > timeouts.heartbeat + timeouts.silence / 2)
      last_answer = time;  // this process was stopped
    last = time;
    if (heartbeats_ended || time - last_answer <= timeouts.silence + timeouts.heartbeat) continue;
    lock.unlock();
    store_lost(fmt::format("has not answered for {:.3g} s", time - last_answer));
  }
}

bool Watch::await_all(const std::function<bool()>& stop) {
  std::unique_lock lock(impl_->mutex);
  while (!impl_->changed.wait_for(lock, Impl::Seconds(kWatchPoll), [&] { return impl_->all_here; }))
    if (stop && stop()) return false;
  return true;
}

int64_t Watch::begin(const char* what) {
  const std::lock_guard lock(impl_->mutex);
  impl_->mine.what = what;
  impl_->detector.note_begun(++impl_->mine.begun, what);
  return impl_->mine.begun;
}

void Watch::Impl::begin_wait(WaitFor what) {
  const std::lock_guard lock(mutex);
  waits.push_back(what);
  waiting = monotonic_seconds();
}

void Watch::await_begin() { impl_->begin_wait(Impl::WaitFor::collective); }

void Watch::await_device_begin() { impl_->begin_wait(Impl::WaitFor::device); }

// Call with the mutex locked. An inner wait that ended is progress, so an outer wait counts from
// now.
void Watch::Impl::end_wait() {
  waits.pop_back();
  waiting = waits.empty() ? -1 : monotonic_seconds();
}

void Watch::await_end(int64_t joined) {
  const std::lock_guard lock(impl_->mutex);
  impl_->detector.note_joined(joined);
  impl_->clock.note_wait(monotonic_seconds() - impl_->waiting);
  impl_->end_wait();
}

void Watch::await_device_end() {
  const std::lock_guard lock(impl_->mutex);
  impl_->end_wait();
}

void Watch::note_step(int64_t step) {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->mine.step < 0) {  // the launcher must know soon that the run has begun
    impl_->send_now = true;
    impl_->changed.notify_all();
  }
  impl_->mine.step = step;
  impl_->detector.note_step(step, impl_->mine.begun);
  impl_->clock.note_step(monotonic_seconds());
  impl_->mine.step_time = impl_->clock.step_time();
  impl_->mine.compute_time = impl_->clock.compute_time();
}

std::string Watch::phase(const std::string& name) {
  const std::lock_guard lock(impl_->mutex);
  std::string before = std::exchange(impl_->mine.phase, name);
  impl_->clock.skip();  // this step's duration is not representative
  impl_->send_now = true;
  impl_->changed.notify_all();
  return before;
}

void Watch::ending(bool complete) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->complete = complete;
  }
  phase(kEnding);
}

void Watch::stop() {
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->stopping) return;
    impl_->stopping = true;
    if (impl_->mine.phase == kEnding) impl_->mine.phase = kEnded;
    impl_->changed.notify_all();
  }
  impl_->heartbeat_thread.join();
  impl_->store_thread.join();
}

}  // namespace bv
