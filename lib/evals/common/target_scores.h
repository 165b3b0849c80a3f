// Metrics of predicted numbers, in float64 and in the order of the examples. They are those of
// scikit-learn, whose means over several targets are uniform.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace bv {

struct TargetScores {
  double mae = 0, mse = 0, rmse = 0;
  // 1 - (sum of squared errors) / (sum of squared distances of the truth from its mean). If all
  // truths are equal, 1 for predictions without error and 0 for others; NaN for a single example.
  double r2 = 0;
};

// Returns the scores of each of `targets` columns. truth, predicted: (n, targets), n >= 1.
std::vector<TargetScores> score_targets(std::span<const float> truth,
                                        std::span<const float> predicted, int64_t targets);
// Returns the mean of each score over the targets. So `rmse` is a mean of roots.
TargetScores mean_over_targets(const std::vector<TargetScores>& scores);

}  // namespace bv
