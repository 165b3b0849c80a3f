// Keeps OpenMP's threads from spinning while other programs need the same cores.
//
// At the end of a parallel loop, libgomp's threads spin for some milliseconds before they sleep.
// For a run that has its cores to itself this is best: sleeping at once costs a small network a
// tenth of its speed. If two runs share cores, as in a sweep, a spinning thread occupies the core
// that the thread it waits for needs, and each run takes almost 20 times as long.
//
// libgomp spins only briefly if it manages more threads than there are cores. The throttle makes
// use of this: while the training thread has to wait for a core, it adds sleeping threads to those
// that libgomp counts. Linux reports how long a thread has waited for a core in
// /proc/self/task/<tid>/schedstat. The throttle does nothing without that file, with one compute
// thread, or if the user has set GOMP_SPINCOUNT or OMP_WAIT_POLICY.
#pragma once

#include <cstdint>
#include <memory>

namespace bv {

// Decides from the time that a thread waits for a core whether others need the cores, with
// hysteresis. Pure: it reads no clock.
class ContentionDetector {
 public:
  // Takes two times in nanoseconds: the time since the last call, and how long of it the thread was
  // able to run but waited for a core. Returns whether the cores are contended.
  bool update(int64_t elapsed, int64_t waited);

 private:
  bool contended_ = false;
  int64_t elapsed_ = 0, waited_ = 0;  // since the last decision
};

class SpinThrottle {
 public:
  // Starts to watch the calling thread, which trains with `compute_threads` threads.
  explicit SpinThrottle(int compute_threads);
  ~SpinThrottle();
  SpinThrottle(const SpinThrottle&) = delete;

  bool active() const { return impl_ != nullptr; }  // it watches a thread
  bool throttled() const;                           // threads spin only briefly now

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;  // null if there is nothing to do
};

}  // namespace bv
