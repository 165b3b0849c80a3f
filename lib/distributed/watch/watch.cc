#include "lib/distributed/watch/watch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "lib/distributed/store.h"
#include "lib/distributed/watch/deadline.h"
#include "lib/distributed/watch/exit_now.h"
#include "lib/distributed/watch/failure_detector.h"
#include "lib/distributed/watch/step_clock.h"
#include "lib/report/chrono.h"
#include "lib/report/log.h"
#include "lib/util/signals.h"

namespace bv {
namespace {

using WaitFor = FailureDetector::WaitFor;

// Up to this many ranks, each rank watches all others. In a larger group, rank 0 watches all others
// and every other rank watches only kNeighbours ranks and rank 0, because the store serves its
// clients with one thread. kFailureKey shares one rank's finding with all ranks.
constexpr int kAllWatchAll = 64;
constexpr int kNeighbours = 16;
constexpr double kLinger = 2.5;     // heartbeats
constexpr double kWatchPoll = 0.1;  // seconds between two checks whether to keep waiting
constexpr int kMostListed = 8;      // missing ranks in a message
// Seconds in which this rank may find the same error that another rank has ended with.
constexpr double kSameError = 1;
// Seconds to wait for this rank's own error after another rank has ended with Exit::peer. This rank
// first writes its rows, which takes up to two seconds (Trainer::flush_rows()).
constexpr double kOwnFault = 3;

std::chrono::duration<double> seconds(double value) { return std::chrono::duration<double>(value); }

std::vector<int> watched_ranks(int rank, int size) {
  std::vector<int> ranks;
  const int count = size <= kAllWatchAll || rank == 0 ? size - 1 : kNeighbours;
  for (int i = 1; i <= count; ++i) ranks.push_back((rank + i) % size);
  if (rank != 0 && std::find(ranks.begin(), ranks.end(), 0) == ranks.end()) ranks.push_back(0);
  return ranks;
}

}  // namespace

std::string heartbeat_key(int rank) { return fmt::format("heartbeat/{}", rank); }

struct Watch::Impl {
  Impl(const RankLayout& layout, const std::string& address, const Timeouts& timeouts,
       const std::function<bool()>& stop)
      : layout(layout),
        timeouts(timeouts),
        where(fmt::format("{}:{}", address, layout.port)),
        watched(watched_ranks(layout.rank, layout.size)),
        mine(heartbeat_of_this_process()),
        detector(layout.rank, layout.size, timeouts, [mine = mine](const Heartbeat& heartbeat) {
          return known_dead(heartbeat, mine);
        }) {
    const Deadline deadline(timeouts.startup + kStoreGreeting,
                            fmt::format("[distributed] the store at {} accepts connections but "
                                        "does not answer: is it a run's store?",
                                        where));
    store = std::make_unique<Store>(address, layout.port, layout.token, timeouts.startup, stop);
    store->exchange(kFailureKey, "", kNoFailure);
  }

  const RankLayout layout;
  const Timeouts timeouts;
  const std::string where;
  const std::vector<int> watched;
  std::unique_ptr<Store> store;  // once the heartbeat thread runs, only it uses this

  std::mutex mutex;  // guards the members below
  std::condition_variable changed;
  Heartbeat mine;
  FailureDetector detector;
  StepClock clock;
  std::vector<WaitFor> waits;          // begun and not ended, the inner ones last
  double waiting = -1;                 // since when the main thread waits; -1: it does not
  bool all_here = false;               // all ranks have sent a heartbeat
  bool complete = false;               // what ending() was told
  bool stopping = false;               // stop() was called
  bool send_now = false;               // send the next heartbeat immediately
  bool last_sent = false;              // the store has this process's last heartbeat
  bool heartbeats_ended = false;       // the heartbeat thread has ended
  std::string own_failure;             // this process's report that it ends, as text; or ""
  std::atomic<double> last_answer{0};  // when the store last answered
  std::thread heartbeat_thread, store_thread;

  void run_heartbeats();
  void heartbeat_loop();
  void watch_store();
  void check_ranks();
  void check_arrivals(double started);
  void read_heartbeats();
  void linger() const;
  void begin_wait(WaitFor what);
  void end_wait();
  void end_process(const FailureReport& failure);
  [[noreturn]] void store_lost(const std::string& why);
  bool nothing_is_lost();
  [[noreturn]] void end_with(const std::string& line);
  std::vector<std::string> keys() const;
};

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

// The store's host ends last. Otherwise the others would lose the store and report the host as the
// rank that failed.
void Watch::Impl::linger() const {
  if (layout.hosts_store) std::this_thread::sleep_for(seconds(kLinger * timeouts.heartbeat));
}

// Whether the run is complete, so that a rank that is lost now takes nothing with it.
bool Watch::Impl::nothing_is_lost() {
  const std::lock_guard lock(mutex);
  if (!complete || layout.rank == 0) return complete;
  const Heartbeat* first = detector.last_heartbeat(0);
  return first && (first->phase == kEnding || first->phase == kEnded);
}

// Ends the process because the ranks cannot go on together.
void Watch::Impl::end_with(const std::string& line) {
  if (nothing_is_lost()) exit_now(Exit::ok, line + "; the run was complete by then");
  exit_now(Exit::peer, line);
}

// Ends the process, as end_with() does. Returns only if this process is about to end with its own
// error.
void Watch::Impl::end_process(const FailureReport& failure) {
  std::string line;
  {
    std::unique_lock lock(mutex);
    // All ranks find an error in the config, or a loss that is not finite, at about the same time.
    // Each should then end with that error, not with the report that another rank did.
    // After timeouts.silence the watch of the store would end the process, so the wait is shorter.
    const double limit = failure.rank < 0 ? std::min(kOwnFault, timeouts.silence / 2) : kSameError;
    if (failure.cause.find(kEndedWith) != std::string::npos && failure.rank != layout.rank)
      changed.wait_for(lock, seconds(limit), [&] { return !own_failure.empty(); });
    if (!own_failure.empty()) return;
    // All ranks received the signal, but the main thread of this one has not checked for it yet.
    const Exit stop = failure.cause.ends_with(kStoppedBySignal) ? stop_requested() : Exit::ok;
    if (stop != Exit::ok) {
      lock.unlock();
      linger();
      exit_now(stop, "Stopped by a signal; nothing was saved");
    }
    line = detector.message(failure, mine);
    if (failure.rank == layout.rank)
      line = fmt::format(
          "[distributed] the other ranks continued without this one (rank {}, {}, pid {}), "
          "which {}",
          layout.rank, mine.host, mine.pid, failure.cause);
  }
  linger();
  end_with(line);
}

void Watch::Impl::store_lost(const std::string& why) {
  std::string line;
  {
    const std::lock_guard lock(mutex);
    const char* host = layout.store_host == StoreHost::torchrun ? "torchrun" : "bvtrain's launcher";
    if (layout.store_host == StoreHost::rank0 && detector.last_heartbeat(0) && layout.rank != 0)
      line = detector.message({0, fmt::format("hosts the run's store at {}, which {}", where, why)},
                              mine);
    else if (layout.store_host == StoreHost::rank0)
      line = fmt::format("[distributed] the run's store at {} (hosted by rank 0) {}", where, why);
    else
      line = fmt::format(
          "[distributed] the run's store at {} (hosted by {}) {}; the last step here was {}", where,
          host, why, mine.step);
  }
  end_with(line);
}

// Reads the failure, if there is one, and the heartbeats of all watched ranks.
void Watch::Impl::read_heartbeats() {
  const std::vector<std::string> values = store->get_all(keys());
  const double read_at = monotonic_seconds();
  if (values.at(0) != kNoFailure) {
    {
      const std::lock_guard lock(mutex);
      if (last_sent) return;  // this process is ending already
      for (size_t i = 0; i < watched.size(); ++i)
        if (const auto heartbeat = Heartbeat::parse(values[i + 1]))
          detector.record(watched[i], *heartbeat, read_at);
      const auto failure = FailureReport::parse(values[0]);
      // A launcher reports any rank that ended with an error. If that rank had reached the last
      // barrier, and so has this one, this one can finish.
      const bool other = failure && failure->rank != layout.rank;
      const Heartbeat* failed_rank = other ? detector.last_heartbeat(failure->rank) : nullptr;
      if (failed_rank && mine.phase == kEnding &&
          (failed_rank->phase == kEnding || failed_rank->phase == kEnded))
        return;
    }
    end_process(FailureReport::parse(values[0]).value_or(FailureReport{-1, "the run was aborted"}));
  }
  const std::lock_guard lock(mutex);
  for (size_t i = 0; i < watched.size(); ++i)
    if (const auto heartbeat = Heartbeat::parse(values[i + 1]))
      detector.record(watched[i], *heartbeat, read_at);
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
  exit_now(Exit::peer,
           fmt::format("[distributed] only some of {} ranks joined within {:.3g} s; missing: {}",
                       layout.size, monotonic_seconds() - started, missing));
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
      changed.wait_for(lock, seconds(pause), [&] { return stopping || send_now; });
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
    changed.wait_for(lock, seconds(timeouts.heartbeat), [&] { return heartbeats_ended; });
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
  while (!impl_->changed.wait_for(lock, seconds(kWatchPoll), [&] { return impl_->all_here; }))
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

void Watch::await_begin() { impl_->begin_wait(WaitFor::collective); }

void Watch::await_device_begin() { impl_->begin_wait(WaitFor::device); }

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

void Watch::failed(int64_t number, const char* what, const std::string& message) {
  // A broken connection shows that a rank is gone, but not which. The heartbeat thread finds that
  // out and ends the process: from a launcher's report, from the process table, or because
  // heartbeats stop. The line below is only for the case that it does not.
  const double limit = impl_->timeouts.silence + 2 * impl_->timeouts.heartbeat + 1;
  std::this_thread::sleep_for(seconds(limit));
  impl_->end_with(fmt::format("[distributed] collective {} ({}) failed: {}", number, what,
                              message.substr(0, message.find('\n'))));
}

void Watch::report_own_failure(int code, std::string_view line) {
  std::unique_lock lock(impl_->mutex);
  if (impl_->stopping) return;
  impl_->own_failure = FailureReport::of_end(impl_->layout.rank, code, line).text();
  impl_->send_now = true;
  impl_->changed.notify_all();
  impl_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return impl_->last_sent; });
  lock.unlock();
  impl_->linger();
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
