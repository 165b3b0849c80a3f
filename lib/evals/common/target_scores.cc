#include "lib/evals/common/target_scores.h"

#include <cmath>
#include <limits>

namespace bv {

std::vector<TargetScores> score_targets(std::span<const float> truth,
                                        std::span<const float> predicted, int64_t targets) {
  const int64_t n = std::ssize(truth) / targets;
  const auto count = static_cast<double>(n);
  std::vector<TargetScores> scores;
  for (int64_t t = 0; t < targets; ++t) {
    double sum = 0, distances = 0, squares = 0, spread = 0;
    for (int64_t i = 0; i < n; ++i) sum += truth[i * targets + t];
    const double mean = sum / count;
    bool equal = true;
    for (int64_t i = 0; i < n; ++i) {
      const double value = truth[i * targets + t];
      const double error = value - predicted[i * targets + t];
      distances += std::abs(error);
      squares += error * error;
      spread += (value - mean) * (value - mean);
      equal &= truth[i * targets + t] == truth[t];
    }
    TargetScores one = {distances / count, squares / count, std::sqrt(squares / count)};
    if (n < 2)
      one.r2 = std::numeric_limits<double>::quiet_NaN();
    else if (equal)  // the rounding of the mean must not create a spread
      one.r2 = squares == 0 ? 1 : 0;
    else
      one.r2 = 1 - squares / spread;
    scores.push_back(one);
  }
  return scores;
}

TargetScores mean_over_targets(const std::vector<TargetScores>& scores) {
  TargetScores mean;
  for (const TargetScores& one : scores) {
    mean.mae += one.mae;
    mean.mse += one.mse;
    mean.rmse += one.rmse;
    mean.r2 += one.r2;
  }
  const auto count = static_cast<double>(scores.size());
  return {mean.mae / count, mean.mse / count, mean.rmse / count, mean.r2 / count};
}

}  // namespace bv
