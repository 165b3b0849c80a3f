#include "lib/distributed/watch/step_clock.h"

#include <algorithm>
#include <vector>

namespace bv {
namespace {

constexpr size_t kWindow = 20;  // steps

double median(const std::deque<double>& values, size_t least) {
  if (values.size() < least) return 0;
  std::vector<double> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

void push(std::deque<double>& values, double value) {
  values.push_back(value);
  if (values.size() > kWindow) values.pop_front();
}

}  // namespace

void StepClock::note_step(double now) {
  if (last_ >= 0) {
    push(lengths_, now - last_);
    push(compute_lengths_, std::max(1e-6, now - last_ - waited_));
  }
  last_ = now;
  waited_ = 0;
}

void StepClock::skip() { last_ = -1; }

double StepClock::step_time() const { return median(lengths_, 3); }
double StepClock::compute_time() const { return median(compute_lengths_, kWindow); }

}  // namespace bv
