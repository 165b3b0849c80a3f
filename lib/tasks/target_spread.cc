#include "lib/tasks/target_spread.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/util/text.h"

namespace bv {

void RunningSpread::add(double value) {
  if (count_ == 0) least_ = most_ = value;
  least_ = std::min(least_, value);
  most_ = std::max(most_, value);
  const double distance = value - mean_;
  mean_ += distance / static_cast<double>(++count_);
  squares_ += distance * (value - mean_);
}

double RunningSpread::std() const { return std::sqrt(squares_ / static_cast<double>(count_)); }

double RunningSpread::float_step() const {
  const auto large = static_cast<float>(std::max(std::abs(least_), std::abs(most_)));
  return std::nextafter(large, INFINITY) - static_cast<double>(large);
}

std::string unlearnable(const RunningSpread& spread, const std::string& target) {
  constexpr double kLeast = 32;  // float32 steps per standard deviation
  const double step = spread.float_step();
  const bool resolved = spread.constant() ? step < 1 : spread.std() >= kLeast * step;
  if (!resolved) {
    return fmt::format(
        "{} has values near {:.6g}, which float32 rounds to multiples of {}, and their standard "
        "deviation is only {}: subtract a constant from them",
        target, spread.mean(), short_number(step), short_number(spread.std()));
  }
  if (!spread.constant() && static_cast<float>(spread.std()) != 0) return "";
  return fmt::format(
      "{} is constant ({}) in all {} training examples: there is nothing to learn, and it cannot "
      "be normalized",
      target, spread.mean(), spread.count());
}

}  // namespace bv
