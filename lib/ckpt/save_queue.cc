#include "lib/ckpt/save_queue.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "lib/device/compute_threads.h"
#include "lib/report/log.h"

namespace bv {
namespace {

// By how much the nice value of the saving thread is above that of the other threads.
constexpr int kNice = 5;
constexpr int kLowestPriority = 19;  // the largest nice value

// Returns this thread's CPU time.
std::chrono::duration<double> computed() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

SaveQueue::~SaveQueue() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

bool SaveQueue::leave_out(int64_t step) {
  const std::lock_guard lock(mutex_);
  if (budget() > 0) return false;
  count_left_out(step);
  return true;
}

int SaveQueue::free_buffer() {
  std::unique_lock lock(mutex_);
  if (is_free(buffer_)) return give_out(buffer_);  // saves that do not overlap use one buffer
  const int other = 1 - buffer_;
  while (true) {
    if (is_free(other)) return give_out(other);
    const auto job = waiting();
    if (job == jobs_.end()) {
      changed_.wait(lock);
      continue;
    }
    const double left = budget();
    if (left <= 0) {
      count_left_out(job->step);
      const int buffer = job->buffer;
      jobs_.erase(job);
      return give_out(buffer);
    }
    const Clock::time_point begin = Clock::now();
    changed_.wait_for(lock, Seconds(left));
    spend(Clock::now() - begin);
  }
}

int SaveQueue::give_out(int buffer) {
  given_out_ = Clock::now();
  return buffer_ = buffer;
}

void SaveQueue::count_left_out(int64_t step) {
  left_out_step_ = step;
  if (left_out_++ > 0) return;
  log::info(
      "[{}] checkpoints are due so often that saving all of them would slow training: some are "
      "skipped",
      step);
}

void SaveQueue::add(Job job) {
  const std::lock_guard lock(mutex_);
  if (job.buffer >= 0) spend(Clock::now() - given_out_);
  if (job.step >= 0 && job.step == left_out_step_) {  // it will be saved after all
    --left_out_;
    left_out_step_ = -1;
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  jobs_.push_back(std::move(job));
  changed_.notify_all();
}

void SaveQueue::require(int64_t step) {
  const std::lock_guard lock(mutex_);
  for (Job& job : jobs_) job.may_be_left_out &= job.step != step;
}

void SaveQueue::await_all() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return jobs_.empty(); });
}

// Returns the seconds left in the budget.
double SaveQueue::budget() {
  const Clock::time_point now = Clock::now();
  budget_ = std::min(burst_, budget_ + kShare * Seconds(now - refilled_).count());
  refilled_ = now;
  return budget_;
}

void SaveQueue::spend(Seconds time) { budget_ = std::max(budget_ - time.count(), -burst_); }

bool SaveQueue::is_free(int buffer) const {
  return std::none_of(jobs_.begin(), jobs_.end(),
                      [&](const Job& job) { return job.buffer == buffer; });
}

// Returns the save that may be skipped and has not begun; jobs_.end() if there is none.
std::deque<SaveQueue::Job>::iterator SaveQueue::waiting() {
  return std::find_if(jobs_.begin(), jobs_.end(),
                      [](const Job& job) { return job.may_be_left_out; });
}

void SaveQueue::run() {
  stay_single_threaded();
  // Gives the training threads priority. A failure is harmless.
  const int lower = std::min(::getpriority(PRIO_PROCESS, 0) + kNice, kLowestPriority);
  (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), lower);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ended_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    jobs_.front().may_be_left_out = false;
    std::function<void()> work = std::move(jobs_.front().work);
    lock.unlock();
    const Seconds before = computed();
    work();
    work = nullptr;  // releases the snapshot
    lock.lock();
    spend((computed() - before) / cores_);
    jobs_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace bv
