// The thread that writes checkpoints while training continues, and how much of the machine it may
// take.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "lib/util/crash_point.h"
#include "lib/util/host.h"

namespace bv {

// Runs saves one after the other on a separate thread. A save reads a snapshot of the training
// state from one of two buffers: one save can wait while another is in progress.
//
// Saves have a time budget, so that a run that saves very often still makes progress. The budget
// grows by kShare seconds per second, up to kBurst seconds. Each save uses up part of the budget:
// its CPU time divided by the number of cores, the time to take its snapshot, and the time that
// training waits for a buffer. While the budget is spent, leave_out() returns true and the caller
// takes no snapshot; this lasts at most kBurst / kShare seconds, however much time the last save
// took, so saves of a large state may take more than kShare. If the budget runs out while
// training waits for a buffer, the new save replaces the one that is still queued.
//
// The members are called from one thread, that of the training.
class SaveQueue {
 public:
  static constexpr double kShare = 0.03;
  static constexpr double kBurst = 0.15;  // seconds; BVTRAIN_SAVE_BUDGET replaces it

  struct Job {
    std::function<void()> work;  // throws nothing
    int buffer = -1;             // of the snapshot that it reads; -1: it reads none
    int64_t step = -1;
    bool may_be_left_out = false;  // a newer one may replace it
  };

  ~SaveQueue();  // all jobs must be done: see await_all()

  // Returns whether the save of this step is left out because the budget is spent, and counts it.
  bool leave_out(int64_t step);
  // Returns the buffer that the next snapshot may overwrite, 0 or 1. If no buffer is free, waits
  // for a save to end, or drops one that has not begun.
  int free_buffer();
  void add(Job job);
  // From now on the save of this step must not be left out. Does nothing if it is not waiting.
  void require(int64_t step);
  void await_all();  // waits until all jobs are done
  int64_t left_out() const { return left_out_; }

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  void run();
  double budget();
  void spend(Seconds time);
  bool is_free(int buffer) const;
  std::deque<Job>::iterator waiting();
  void count_left_out(int64_t step);
  int give_out(int buffer);

  int buffer_ = 1;  // the one that was given out last
  Clock::time_point given_out_;
  int64_t left_out_ = 0;        // how many saves
  int64_t left_out_step_ = -1;  // of the last one
  const double cores_ = usable_cores();
  const double burst_ = save_budget().value_or(kBurst);

  std::mutex mutex_;                 // guards what follows up to refilled_
  std::condition_variable changed_;  // a job was added or is done, or nothing will be added
  std::deque<Job> jobs_;             // the first one is in progress, or is next
  bool ended_ = false;
  double budget_ = burst_;  // seconds, at the time refilled_
  Clock::time_point refilled_ = Clock::now();

  std::thread thread_;
};

}  // namespace bv
