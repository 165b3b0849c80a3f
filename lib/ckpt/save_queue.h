// The thread that writes checkpoints while training goes on, and how much of the machine it may
// take.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace bv {

// Runs saves one after the other on a thread of its own. A save reads a snapshot of the training
// state from one of two buffers: one save can wait while another is in progress.
//
// Saves have a time budget, so that a run that saves very often still trains. The budget grows by
// kShare seconds per second, up to kBurst seconds. A save spends its CPU time and the time that
// training waits for it. When the budget is spent, the next save waits until it is positive again,
// at most kBurst / kShare seconds. If another save is queued in that time, the waiting one is left
// out. The budget applies only to saves with `may_be_left_out`.
//
// The members are called from one thread, that of the training.
class SaveQueue {
 public:
  static constexpr double kShare = 0.1;  // of one core
  static constexpr double kBurst = 0.5;  // seconds

  struct Job {
    std::function<void()> work;  // throws nothing
    int buffer = -1;             // of the snapshot that it reads; -1: it reads none
    int64_t step = -1;
    bool may_be_left_out = false;
  };

  ~SaveQueue();  // all jobs must be done: see await_all()

  // Returns the buffer that the next snapshot may overwrite, 0 or 1. Waits for a save, or leaves
  // one out, if there is none.
  int free_buffer();
  void add(Job job);
  void do_in_any_case(int64_t step);  // the save of this step is not left out, if there is one
  void await_all();                   // waits until all jobs are done; none is left out

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  void run();
  bool await_turn(std::unique_lock<std::mutex>& lock);
  double budget();
  void spend(Seconds time);
  bool is_free(int buffer) const;
  std::deque<Job>::iterator waiting();
  int leave_out(std::deque<Job>::iterator job);

  int buffer_ = 1;     // the one that was given out last
  bool told_ = false;  // that saves are left out

  std::mutex mutex_;                 // guards what follows up to refilled_
  std::condition_variable changed_;  // a job was added or is done, or nothing will be added
  std::deque<Job> jobs_;             // the first one is in progress, or is next
  bool awaited_ = false;             // await_all() waits
  bool ended_ = false;
  double budget_ = kBurst;  // seconds, at the time refilled_
  Clock::time_point refilled_ = Clock::now();

  std::thread thread_;
};

}  // namespace bv
