#include "lib/input/rare_classes.h"

#include <cmath>

namespace bv {

// Compares one number with its distribution over all random choices: how many examples of the
// missing classes one would expect in the part.
bool lost_by_chance(const std::map<int64_t, int64_t>& counts, const std::set<int64_t>& lost,
                    double share) {
  constexpr double kDeviations = 4;
  double missed = 0, mean = 0, variance = 0;
  for (const auto& [label, count] : counts) {
    const double expected = share * static_cast<double>(count);
    const double absent = std::pow(1 - share, static_cast<double>(count));  // the probability
    if (lost.contains(label)) missed += expected;
    mean += absent * expected;
    variance += absent * (1 - absent) * expected * expected;
  }
  return missed <= mean + kDeviations * std::sqrt(variance);
}

}  // namespace bv
