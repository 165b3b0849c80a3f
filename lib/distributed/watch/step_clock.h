// Median length of the last steps, with and without the time spent waiting for other ranks.
#pragma once

#include <deque>

namespace bv {

class StepClock {
 public:
  void waited(double seconds) { waited_ += seconds; }
  void step(double now);     // a step ended at `now` (seconds of any steady clock)
  void skip();               // the time up to the next step() is no step
  double step_time() const;  // median seconds; 0 until three steps are known
  double own_time() const;   // median of what was not waiting; 0 until twenty steps are known

 private:
  double last_ = -1, waited_ = 0;
  std::deque<double> all_, own_;  // of the last steps
};

}  // namespace bv
