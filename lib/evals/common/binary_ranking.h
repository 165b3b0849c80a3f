// Curves and areas of one class against all others, from the scores of examples. Equal scores are
// one step of a curve, as in scikit-learn. No sum depends on the number of threads or ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace bv {

// How many examples have at least a certain score.
struct RankedStep {
  double score = 0;
  int64_t positives = 0, negatives = 0;
};

// The examples by descending score, with a step for each distinct score. The last step has all of
// them.
struct BinaryRanking {
  std::vector<RankedStep> steps;
  int64_t positives() const { return steps.empty() ? 0 : steps.back().positives; }
  int64_t negatives() const { return steps.empty() ? 0 : steps.back().negatives; }
};

// `scores` and `positive` (0 or 1) have a value per example. Scores must not be NaN.
BinaryRanking rank_scores(std::span<const double> scores, std::span<const uint8_t> positive);

// Returns the area under the ROC curve: the probability that a positive example has a higher score
// than a negative one, where ties count half. NaN without positive or without negative examples.
double auroc(const BinaryRanking& ranking);
// Returns the sum over the steps of (rise of the recall) * (precision at the step), which does not
// interpolate. NaN without positive examples.
double average_precision(const BinaryRanking& ranking);

using CurvePoints = std::vector<std::pair<double, double>>;

// Returns at most `most` points (false positive rate, true positive rate), from (0, 0) to (1, 1).
// Empty where auroc() is NaN.
CurvePoints roc_curve(const BinaryRanking& ranking, size_t most);
// Returns at most `most` points (recall, precision) by rising recall. Empty where
// average_precision() is NaN.
CurvePoints precision_recall_curve(const BinaryRanking& ranking, size_t most);

// Return the true positive rates (the precisions) at `count` evenly spaced false positive rates
// (recalls) from 0 to 1, so that the curves of several classes can be averaged. Empty in the same
// cases as the curves above.
std::vector<double> true_positive_rates(const BinaryRanking& ranking, size_t count);
std::vector<double> precisions(const BinaryRanking& ranking, size_t count);

}  // namespace bv
