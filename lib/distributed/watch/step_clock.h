// Measures the median length of the last steps, with and without the time spent waiting for other
// ranks.
#pragma once

#include <deque>

namespace bv {

// All times are in seconds.
class StepClock {
 public:
  // The current step waited this long for other ranks.
  void note_wait(double seconds) { waited_ += seconds; }
  // A step ended at `now`, by any steady clock.
  void note_step(double now);
  // Does not count the time until the next note_step(): something else than a step happened.
  void skip();
  double step_time() const;     // median length; 0 until three steps are known
  double compute_time() const;  // median length without waiting; 0 until twenty steps are known

 private:
  double last_ = -1, waited_ = 0;
  std::deque<double> lengths_, compute_lengths_;  // of the last steps
};

}  // namespace bv
