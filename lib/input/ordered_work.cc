#include "lib/input/ordered_work.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>

#include "lib/util/error.h"
#include "lib/util/signals.h"

namespace bv {
namespace {

class OrderedWork {
 public:
  using Call = std::function<void(int64_t)>;
  OrderedWork(int64_t count, int64_t ahead, const Call& work, const Call& take)
      : count_(count), work_(work), take_(take), done_(ahead, false) {}

  // `leads`: the calling thread of work_in_order(), which checks for signals.
  void run(bool leads) {
    const c10::InferenceMode no_autograd;
    for (int64_t i; !failed_ && (i = next_++) < count_;) {
      try {
        if (leads) poll_signals();
        if (!await_room(i)) return;
        work_(i);
        finish(i);
      } catch (...) {
        fail(i);
      }
    }
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  // Waits until piece i may begin. Returns false if it must not be computed. After a failure, the
  // pieces before the failed one are still computed, so that the same error is thrown regardless of
  // timing. After a stop signal, a piece without a free slot is not computed: no more results are
  // taken, so it would wait forever.
  bool await_room(int64_t i) {
    const auto has_room = [&] { return i < taken_ + std::ssize(done_); };
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return failed_ || has_room(); });
    return i < failed_at_ && has_room();
  }

  void finish(int64_t i) {
    const std::lock_guard lock(mutex_);
    done_[i % std::ssize(done_)] = true;
    const int64_t before = taken_;
    while (!failed_ && done_[taken_ % std::ssize(done_)]) {
      take_(taken_);
      done_[taken_ % std::ssize(done_)] = false;
      ++taken_;
    }
    if (taken_ > before) room_.notify_all();
  }

  void fail(int64_t i) {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    if (i < failed_at_) failure_ = std::current_exception();
    failed_at_ = std::min(failed_at_, i);
    room_.notify_all();
  }

  const int64_t count_;
  const Call& work_;
  const Call& take_;
  std::atomic<int64_t> next_ = 0;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;              // guards what follows
  std::condition_variable room_;  // taken_ has grown, or the work has failed
  std::vector<bool> done_;        // (ahead,) by i % ahead: i is computed but not taken yet
  int64_t taken_ = 0;             // the lowest i that is not taken
  std::exception_ptr failure_;    // of failed_at_
  int64_t failed_at_ = std::numeric_limits<int64_t>::max();
};

}  // namespace

void work_in_order(int64_t count, int threads, int64_t ahead,
                   const std::function<void(int64_t)>& work,
                   const std::function<void(int64_t)>& take) {
  check(threads >= 1 && ahead >= 1, "ordered work with {} threads, {} ahead", threads, ahead);
  OrderedWork shared(count, ahead, work, take);
  {
    std::vector<std::jthread> helpers;
    try {
      for (int64_t i = 1; i < std::min<int64_t>(threads, count); ++i)
        helpers.emplace_back([&] { shared.run(/*leads=*/false); });
    } catch (const std::system_error&) {
      // The system allows no more threads. The existing ones do the work.
    }
    shared.run(/*leads=*/true);
  }
  shared.rethrow();
}

}  // namespace bv
