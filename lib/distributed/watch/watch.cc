#include "lib/distributed/watch/watch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "lib/distributed/store.h"
#include "lib/distributed/watch/leave.h"
#include "lib/distributed/watch/step_clock.h"
#include "lib/report/log.h"

namespace bv {
namespace {

// Above this many ranks each watches its next neighbours only (rank 0 watches all): the store is
// one thread, and what one rank finds all learn by the verdict.
constexpr int kAllWatchAll = 64;
constexpr int kNeighbours = 16;
constexpr double kAnswer = 2;      // seconds a store may take to greet
constexpr double kLinger = 2.5;    // heartbeats
constexpr double kAskAgain = 0.1;  // seconds between two looks whether to go on waiting
constexpr int kMostListed = 8;     // missing ranks in a message
constexpr const char* kEndedWith = "ended with exit code";
constexpr double kSameError = 1;  // seconds for this rank to find what another one ended with

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::chrono::duration<double> seconds(double value) { return std::chrono::duration<double>(value); }

std::vector<int> watched_ranks(int rank, int size) {
  std::vector<int> ranks;
  const int count = size <= kAllWatchAll || rank == 0 ? size - 1 : kNeighbours;
  for (int i = 1; i <= count; ++i) ranks.push_back((rank + i) % size);
  return ranks;
}

}  // namespace

std::string heartbeat_key(int rank) { return fmt::format("beat/{}", rank); }

struct Watch::Impl {
  Impl(const RankLayout& place, const std::string& address, const Bounds& bounds,
       const std::function<bool()>& stop)
      : place(place),
        bounds(bounds),
        where(fmt::format("{}:{}", address, place.port)),
        watched(watched_ranks(place.rank, place.size)),
        mine(heartbeat_of_this_process()),
        judge(place.rank, place.size, bounds,
              [mine = mine](const Heartbeat& beat) { return known_dead(beat, mine); }) {
    const Alarm alarm(bounds.startup + kAnswer,
                      fmt::format("[distributed] the store at {} accepts connections but "
                                  "does not answer: is it a store of a run?",
                                  where));
    store = std::make_unique<Store>(address, place.port, place.token, bounds.startup, stop);
    store->exchange(kVerdictKey, "", kNoVerdict);
  }

  const RankLayout place;
  const Bounds bounds;
  const std::string where;
  const std::vector<int> watched;
  std::unique_ptr<Store> store;  // of the talking thread, from start() on

  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  Heartbeat mine;
  Judge judge;
  StepClock clock;
  double waiting = -1;  // since when the main thread waits
  bool all_here = false, stopping = false, hurry = false, told = false, silent = false;
  std::string confession;  // the cause of this process's own end
  std::atomic<double> last_answer{0};
  std::thread talker, sentinel;

  void talk();
  void converse();
  void look();
  void round();
  void first_round(double started);
  void read_beats();
  void linger() const;
  void leave(const Accusation& accusation);
  [[noreturn]] void store_lost(const std::string& why);
  std::vector<std::string> keys() const;
};

Watch::Watch(const RankLayout& place, const std::string& address, const Bounds& bounds,
             const std::function<bool()>& stop)
    : impl_(std::make_unique<Impl>(place, address, bounds, stop)) {
  impl_->last_answer = now();
  impl_->talker = std::thread([this] { impl_->talk(); });
  impl_->sentinel = std::thread([this] { impl_->look(); });
}

Watch::~Watch() { stop(); }

std::vector<std::string> Watch::Impl::keys() const {
  std::vector<std::string> keys{kVerdictKey};
  for (const int rank : watched) keys.push_back(heartbeat_key(rank));
  return keys;
}

// The store's host leaves last, or the others would accuse it of taking the store away.
void Watch::Impl::linger() const {
  if (place.hosts_store) std::this_thread::sleep_for(seconds(kLinger * bounds.heartbeat));
}

// Returns only where this process is about to end with an error of its own.
void Watch::Impl::leave(const Accusation& accusation) {
  std::string line;
  {
    std::unique_lock lock(mutex);
    // A wrong config, or a loss that is not a number, is found by all ranks within moments: each
    // ends with that, not with the news that another one did.
    if (accusation.cause.starts_with(kEndedWith) && accusation.rank != place.rank)
      changed.wait_for(lock, seconds(kSameError), [&] { return !confession.empty(); });
    if (!confession.empty()) return;
    line = judge.line(accusation, mine);
    if (accusation.rank == place.rank)
      line = fmt::format(
          "[distributed] the other ranks went on without this one (rank {}, {}, pid {}), "
          "which {}",
          place.rank, mine.host, mine.pid, accusation.cause);
  }
  linger();
  leave_now(Exit::peer, line);
}

void Watch::Impl::store_lost(const std::string& why) {
  std::string line;
  {
    const std::lock_guard lock(mutex);
    const char* host = place.store_host == StoreHost::torchrun ? "torchrun" : "bvtrain's launcher";
    if (place.store_host == StoreHost::rank0 && judge.beat(0) && place.rank != 0)
      line = judge.line({0, fmt::format("and with it the run's store at {} {}", where, why)}, mine);
    else if (place.store_host == StoreHost::rank0)
      line = fmt::format("[distributed] the run's store at {} (hosted by rank 0) {}", where, why);
    else
      line = fmt::format(
          "[distributed] the run's store at {} (hosted by {}) {}; the last step here was {}", where,
          host, why, mine.step);
  }
  leave_now(Exit::peer, line);
}

// Reads the verdict and all watched beats.
void Watch::Impl::read_beats() {
  const std::vector<std::string> values = store->get_all(keys());
  const double read_at = now();
  if (values.at(0) != kNoVerdict) {
    {
      const std::lock_guard lock(mutex);
      if (told) return;  // this process is on its way out
      for (size_t i = 0; i < watched.size(); ++i)
        if (const auto beat = Heartbeat::parse(values[i + 1]))
          judge.see(watched[i], *beat, read_at);
      const auto verdict = Accusation::parse(values[0]);
      // A launcher that saw a rank leave behind the last barrier has nothing to accuse it of.
      const Heartbeat* culprit = verdict ? judge.beat(verdict->rank) : nullptr;
      if (culprit && mine.phase == kEnding &&
          (culprit->phase == kEnding || culprit->phase == kEnded))
        return;
    }
    leave(Accusation::parse(values[0]).value_or(Accusation{-1, "the run was given up"}));
  }
  const std::lock_guard lock(mutex);
  for (size_t i = 0; i < watched.size(); ++i)
    if (const auto beat = Heartbeat::parse(values[i + 1])) judge.see(watched[i], *beat, read_at);
}

// Until all ranks have come: their keys are not there yet, and reading one would block.
void Watch::Impl::first_round(double started) {
  std::vector<std::string> all;
  for (int rank = 0; rank < place.size; ++rank) all.push_back(heartbeat_key(rank));
  if (store->has(all)) {
    read_beats();
    const std::lock_guard lock(mutex);
    all_here = true;
    changed.notify_all();
    return;
  }
  if (const auto verdict = Accusation::parse(store->get(kVerdictKey))) leave(*verdict);
  if (now() - started <= bounds.startup) return;
  std::string missing;
  int listed = 0;
  for (int rank = 0; rank < place.size && listed <= kMostListed; ++rank) {
    if (store->has({all[static_cast<size_t>(rank)]})) continue;
    missing += (missing.empty() ? "" : ", ") +
               (++listed > kMostListed ? std::string("...") : std::to_string(rank));
  }
  leave_now(Exit::peer,
            fmt::format("[distributed] within {:.3g} s only some of {} ranks came; missing: {}",
                        now() - started, place.size, missing));
}

void Watch::Impl::round() {
  read_beats();
  std::optional<Accusation> accusation;
  std::optional<Judge::Slow> slow;
  std::string slow_line;
  {
    const std::lock_guard lock(mutex);
    if (told) return;
    accusation = judge.accuse(mine, waiting, now());
    if (place.rank == 0 && (slow = judge.slow(mine))) {
      const Heartbeat* beat = slow->rank == 0 ? &mine : judge.beat(slow->rank);
      slow_line = fmt::format(
          "rank {} ({}, pid {}) is slow: its steps take {:.1f} times the "
          "median of the ranks",
          slow->rank, beat->host, beat->pid, slow->ratio);
    }
  }
  if (!slow_line.empty()) log::warn("{}", slow_line);
  if (!accusation) return;
  // The first accusation is everybody's.
  const std::string agreed = store->exchange(kVerdictKey, kNoVerdict, accusation->text());
  leave(Accusation::parse(agreed).value_or(*accusation));
}

// The talking thread.
void Watch::Impl::talk() {
  converse();
  const std::lock_guard lock(mutex);
  silent = told = true;
  changed.notify_all();
}

void Watch::Impl::converse() {
  const double started = now();
  double last = started;
  // Closer looks while the group comes together, so that a start takes no heartbeat longer.
  double pause = std::min(0.02, bounds.heartbeat);
  while (true) {
    std::string line, confessed;
    bool last_one = false, starting = false;
    {
      std::unique_lock lock(mutex);
      changed.wait_for(lock, seconds(pause), [&] { return stopping || hurry; });
      hurry = false;
      last_one = stopping;
      starting = !all_here;
      ++mine.counter;
      // This process was itself stopped (Ctrl-Z, a debugger, suspend): the others' silence is ours.
      if (now() - last > bounds.heartbeat + bounds.silence / 2) judge.forgive(now());
      last = now();
      line = mine.text();
      confessed = confession;
    }
    try {
      if (!confessed.empty())
        store->exchange(kVerdictKey, kNoVerdict, Accusation{place.rank, confessed}.text());
      store->set(heartbeat_key(place.rank), line);
      if (!confessed.empty() || last_one) {
        store->has(
            {heartbeat_key(place.rank)});  // set() sends only: this waits until it has arrived
        const std::lock_guard lock(mutex);
        told = true;
        changed.notify_all();
      }
      if (last_one) return;
      if (starting)
        first_round(started);
      else
        round();
    } catch (const std::exception&) {
      {
        const std::lock_guard lock(mutex);
        if (stopping || !confessed.empty()) return;
      }
      store_lost("is lost");
    }
    last_answer = now();
    pause = starting ? std::min(bounds.heartbeat, pause * 1.3) : bounds.heartbeat;
  }
}

// The second thread: does the first one get answers?
void Watch::Impl::look() {
  double last = now();
  std::unique_lock lock(mutex);
  while (!silent) {
    changed.wait_for(lock, seconds(bounds.heartbeat), [&] { return silent; });
    const double time = now();
    if (time - last > bounds.heartbeat + bounds.silence / 2) last_answer = time;  // stopped itself
    last = time;
    if (silent || time - last_answer <= bounds.silence + bounds.heartbeat) continue;
    lock.unlock();
    store_lost(fmt::format("has not answered for {:.3g} s", time - last_answer));
  }
}

bool Watch::await_all(const std::function<bool()>& stop) {
  std::unique_lock lock(impl_->mutex);
  while (!impl_->changed.wait_for(lock, seconds(kAskAgain), [&] { return impl_->all_here; }))
    if (stop && stop()) return false;
  return true;
}

int64_t Watch::begin(const char* what) {
  const std::lock_guard lock(impl_->mutex);
  impl_->mine.what = what;
  impl_->judge.begun(++impl_->mine.begun, what);
  return impl_->mine.begun;
}

void Watch::await_begin() {
  const std::lock_guard lock(impl_->mutex);
  impl_->waiting = now();
}

void Watch::await_end(int64_t joined) {
  const std::lock_guard lock(impl_->mutex);
  impl_->judge.joined(joined);
  impl_->clock.waited(now() - impl_->waiting);
  impl_->waiting = -1;
}

void Watch::note_step(int64_t step) {
  const std::lock_guard lock(impl_->mutex);
  impl_->mine.step = step;
  impl_->judge.stepped(step, impl_->mine.begun);
  impl_->clock.step(now());
  impl_->mine.step_time = impl_->clock.step_time();
  impl_->mine.own_time = impl_->clock.own_time();
}

std::string Watch::phase(const std::string& name) {
  const std::lock_guard lock(impl_->mutex);
  std::string before = std::exchange(impl_->mine.phase, name);
  impl_->clock.skip();  // the step around it tells nothing of steps
  impl_->hurry = true;
  impl_->changed.notify_all();
  return before;
}

void Watch::failed(int64_t number, const char* what, const std::string& message) {
  // A broken connection says that somebody went, not who. The watch knows soon: by the launcher,
  // by the process table, by silence.
  const double limit = impl_->bounds.silence + 2 * impl_->bounds.heartbeat + 1;
  std::this_thread::sleep_for(seconds(limit));
  leave_now(Exit::peer, fmt::format("[distributed] collective {} ({}) failed: {}", number, what,
                                    message.substr(0, message.find('\n'))));
}

void Watch::accuse_self(const std::string& cause) {
  std::unique_lock lock(impl_->mutex);
  if (impl_->stopping) return;
  impl_->confession = cause;
  impl_->hurry = true;
  impl_->changed.notify_all();
  impl_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return impl_->told; });
  lock.unlock();
  impl_->linger();
}

void Watch::ending() { phase(kEnding); }

void Watch::stop() {
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->stopping) return;
    impl_->stopping = true;
    if (impl_->mine.phase == kEnding) impl_->mine.phase = kEnded;
    impl_->changed.notify_all();
  }
  impl_->talker.join();
  impl_->sentinel.join();
}

}  // namespace bv
