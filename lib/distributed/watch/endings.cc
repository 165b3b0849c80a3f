// How a process ends because another rank has failed or the store is lost, and how it tells the
// other ranks that it fails itself.
#include <algorithm>

#include "lib/distributed/watch/exit_now.h"
#include "lib/distributed/watch/watch_impl.h"
#include "lib/util/signals.h"

namespace bv {
namespace {

constexpr double kLinger = 2.5;  // heartbeats
// Seconds in which this rank may find the same error that another rank has ended with.
constexpr double kSameError = 1;
// If another rank ends with Exit::peer, this rank may be the one that failed. This is how long the
// watch waits for its error, in seconds: before the error, the rank writes its rows, which takes up
// to two seconds (Trainer::flush_rows()).
constexpr double kOwnFault = 3;
// How long the watch waits for the error of a rank in the phase kFailing, in seconds. Less than
// LaunchOptions::grace_period, after which the launcher kills the rank.
constexpr double kOwnEnd = 8;

}  // namespace

// The store's host ends last. Otherwise the others would lose the store and report the host as the
// rank that failed.
void Watch::Impl::linger() const {
  if (layout.hosts_store) std::this_thread::sleep_for(Seconds(kLinger * timeouts.heartbeat));
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
    const bool other = failure.rank != layout.rank;
    if (other && failure.cause.find(kEndedWith) != std::string::npos)
      changed.wait_for(lock, Seconds(limit),
                       [&] { return !own_failure.empty() || mine.phase == kFailing; });
    if (other && mine.phase == kFailing)
      changed.wait_for(lock, Seconds(std::min(kOwnEnd, timeouts.silence / 2)),
                       [&] { return !own_failure.empty(); });
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

void Watch::failed(int64_t number, const char* what, const std::string& message) {
  // A broken connection shows that a rank is gone, but not which. The heartbeat thread finds that
  // out and ends the process: from a launcher's report, from the process table, or because
  // heartbeats stop. The line below is only for the case that it does not.
  const double limit = impl_->timeouts.silence + 2 * impl_->timeouts.heartbeat + 1;
  std::this_thread::sleep_for(Impl::Seconds(limit));
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

}  // namespace bv
