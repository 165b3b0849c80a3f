#include "lib/ckpt/save_queue.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "lib/report/log.h"

namespace bv {
namespace {

// Returns how long this thread has computed.
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

int SaveQueue::free_buffer() {
  std::unique_lock lock(mutex_);
  if (is_free(buffer_)) return buffer_;  // saves that do not overlap use the memory of one buffer
  const int other = 1 - buffer_;
  while (true) {
    const auto job = waiting();
    if (job != jobs_.end() && budget() <= 0) return buffer_ = leave_out(job);
    if (is_free(other)) return buffer_ = other;
    if (job == jobs_.end()) {
      changed_.wait(lock);
      continue;
    }
    const Clock::time_point begin = Clock::now();
    changed_.wait_for(lock, Seconds(budget()));
    spend(Clock::now() - begin);
  }
}

// Returns the buffer of the save that is left out.
int SaveQueue::leave_out(std::deque<Job>::iterator job) {
  if (!std::exchange(told_, true)) {
    log::info(
        "[{}] checkpoints are due so often that saving them all would slow the training down: one "
        "that still waits when the next is due is left out",
        job->step);
  }
  log::write_detail(fmt::format("[{}] checkpoint left out", job->step));
  const int buffer = job->buffer;
  jobs_.erase(job);
  return buffer;
}

void SaveQueue::add(Job job) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

void SaveQueue::do_in_any_case(int64_t step) {
  const std::lock_guard lock(mutex_);
  for (Job& job : jobs_) job.may_be_left_out &= job.step != step;
}

void SaveQueue::await_all() {
  std::unique_lock lock(mutex_);
  awaited_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return jobs_.empty(); });
  awaited_ = false;
}

// Returns how many seconds are left in the budget now.
double SaveQueue::budget() {
  const Clock::time_point now = Clock::now();
  budget_ = std::min(kBurst, budget_ + kShare * Seconds(now - refilled_).count());
  refilled_ = now;
  return budget_;
}

void SaveQueue::spend(Seconds time) { budget_ = std::max(budget_ - time.count(), -kBurst); }

bool SaveQueue::is_free(int buffer) const {
  return std::none_of(jobs_.begin(), jobs_.end(),
                      [&](const Job& job) { return job.buffer == buffer; });
}

// Returns the save that may be left out and has not begun; jobs_.end() if there is none.
std::deque<SaveQueue::Job>::iterator SaveQueue::waiting() {
  return std::find_if(jobs_.begin(), jobs_.end(),
                      [](const Job& job) { return job.may_be_left_out; });
}

// Waits until the first job may begin. Returns false if there will be no more jobs.
bool SaveQueue::await_turn(std::unique_lock<std::mutex>& lock) {
  while (true) {
    if (jobs_.empty()) {
      if (ended_) return false;
      changed_.wait(lock);
      continue;
    }
    const bool held = jobs_.front().may_be_left_out && !awaited_ && !ended_;
    const double left = held ? budget() : kBurst;
    if (left > 0) return true;
    changed_.wait_for(lock, Seconds(-left / kShare + 1e-3));
  }
}

void SaveQueue::run() {
  std::unique_lock lock(mutex_);
  while (await_turn(lock)) {
    jobs_.front().may_be_left_out = false;
    std::function<void()> work = std::move(jobs_.front().work);
    lock.unlock();
    const Seconds before = computed();
    work();
    work = nullptr;  // releases the snapshot
    lock.lock();
    spend(computed() - before);
    jobs_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace bv
