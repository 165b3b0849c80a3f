#include "lib/evals/common/binary_ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace bv {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double ratio(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

double precision_at(const RankedStep& step) {
  return ratio(step.positives, step.positives + step.negatives);
}

// Returns at most `most` of the points, about equally spaced along `x + weight * y`, which must not
// decrease. Keeps the first and the last point.
CurvePoints thinned_curve(const CurvePoints& points, size_t most, double weight) {
  if (points.size() <= most || most < 2) return points;
  const auto length = [&](const auto& point) { return point.first + weight * point.second; };
  const double first = length(points.front()), last = length(points.back());
  CurvePoints kept = {points.front()};
  for (size_t i = 1; i + 1 < points.size() && kept.size() + 1 < most; ++i) {
    const double mark =
        first + (last - first) * static_cast<double>(kept.size()) / static_cast<double>(most - 1);
    if (length(points[i]) >= mark) kept.push_back(points[i]);
  }
  kept.push_back(points.back());
  return kept;
}

}  // namespace

BinaryRanking rank_scores(std::span<const double> scores, std::span<const uint8_t> positive) {
  std::vector<std::pair<double, uint8_t>> order;
  order.reserve(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) order.emplace_back(-scores[i], positive[i]);
  std::sort(order.begin(), order.end());
  BinaryRanking ranking;
  RankedStep step;
  for (size_t i = 0; i < order.size(); ++i) {
    (order[i].second != 0 ? step.positives : step.negatives) += 1;
    if (i + 1 < order.size() && order[i + 1].first == order[i].first) continue;
    step.score = -order[i].first;
    ranking.steps.push_back(step);
  }
  return ranking;
}

double auroc(const BinaryRanking& ranking) {
  const int64_t positives = ranking.positives(), negatives = ranking.negatives();
  if (positives == 0 || negatives == 0) return kNan;
  // Twice the area in units of one pair: integers, so that the sum is exact below 2^53 pairs.
  double twice = 0;
  RankedStep before;
  for (const RankedStep& step : ranking.steps) {
    twice += static_cast<double>(step.negatives - before.negatives) *
             static_cast<double>(step.positives + before.positives);
    before = step;
  }
  return twice / (2 * static_cast<double>(positives) * static_cast<double>(negatives));
}

double average_precision(const BinaryRanking& ranking) {
  const int64_t positives = ranking.positives();
  if (positives == 0) return kNan;
  double sum = 0;
  int64_t before = 0;
  for (const RankedStep& step : ranking.steps) {
    sum += ratio(step.positives - before, positives) * precision_at(step);
    before = step.positives;
  }
  return sum;
}

CurvePoints roc_curve(const BinaryRanking& ranking, size_t most) {
  if (ranking.positives() == 0 || ranking.negatives() == 0) return {};
  CurvePoints points = {{0, 0}};
  for (const RankedStep& step : ranking.steps) {
    points.emplace_back(ratio(step.negatives, ranking.negatives()),
                        ratio(step.positives, ranking.positives()));
  }
  return thinned_curve(points, most, 1);
}

CurvePoints precision_recall_curve(const BinaryRanking& ranking, size_t most) {
  if (ranking.positives() == 0) return {};
  CurvePoints points;
  for (const RankedStep& step : ranking.steps)
    points.emplace_back(ratio(step.positives, ranking.positives()), precision_at(step));
  return thinned_curve(points, most, 0);
}

std::vector<double> true_positive_rates(const BinaryRanking& ranking, size_t count) {
  if (ranking.positives() == 0 || ranking.negatives() == 0) return {};
  std::vector<double> rates;
  size_t next = 0;  // the first step whose false positive rate is above x
  RankedStep before;
  for (size_t i = 0; i < count; ++i) {
    const double x = static_cast<double>(i) / static_cast<double>(count - 1);
    const auto rate = [&](const RankedStep& step) {
      return ratio(step.negatives, ranking.negatives());
    };
    while (next < ranking.steps.size() && rate(ranking.steps[next]) <= x)
      before = ranking.steps[next++];
    double positives = static_cast<double>(before.positives);
    if (next < ranking.steps.size()) {
      const RankedStep& after = ranking.steps[next];
      positives += static_cast<double>(after.positives - before.positives) * (x - rate(before)) /
                   (rate(after) - rate(before));
    }
    rates.push_back(positives / static_cast<double>(ranking.positives()));
  }
  return rates;
}

std::vector<double> precisions(const BinaryRanking& ranking, size_t count) {
  if (ranking.positives() == 0) return {};
  std::vector<double> values;
  size_t next = 0;  // the first step whose recall is at least x
  for (size_t i = 0; i < count; ++i) {
    const double x = static_cast<double>(i) / static_cast<double>(count - 1);
    while (next + 1 < ranking.steps.size() &&
           ratio(ranking.steps[next].positives, ranking.positives()) < x)
      ++next;
    values.push_back(precision_at(ranking.steps[next]));
  }
  return values;
}

}  // namespace bv
