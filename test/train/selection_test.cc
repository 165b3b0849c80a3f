// Which value of a metric is the best so far.
#include "lib/train/selection.h"

#include <catch2/catch.hpp>
#include <limits>
#include <random>

namespace bv::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// Adds the values at steps 0, 10, 20, ... and returns the steps at which they were the best.
std::vector<int64_t> best_steps(BestValue& best, const std::vector<double>& values) {
  std::vector<int64_t> steps;
  int64_t step = 0;
  for (const double value : values) {
    if (best.add(step, value)) steps.push_back(step);
    step += 10;
  }
  return steps;
}

}  // namespace

TEST_CASE("the best value is the first of the highest") {
  BestValue best({"val/prec@1", true});
  CHECK_FALSE(best.best());
  CHECK(best_steps(best, {0.5, 0.5, 0.4, 0.6, 0.6}) == std::vector<int64_t>{0, 30});
  CHECK(best.best()->step == 30);
  CHECK(best.best()->value == 0.6);
  CHECK(best.last_step() == 40);
}

TEST_CASE("or the first of the lowest") {
  BestValue best({"val/loss", false});
  CHECK(best_steps(best, {2, 1, 1, 3, 0.5}) == std::vector<int64_t>{0, 10, 40});
}

TEST_CASE("a value that is not finite is never the best") {
  BestValue up({"val/prec@1", true}), down({"val/loss", false});
  CHECK(best_steps(up, {kNan, kInf, 0.1, kNan, kInf, 0.2}) == std::vector<int64_t>{20, 50});
  CHECK(best_steps(down, {kNan, -kInf, 0.1, kNan, 0.05}) == std::vector<int64_t>{20, 40});
}

TEST_CASE("an improvement must exceed min_delta") {
  BestValue best({"val/loss", false}, 0.5);
  // 1.5 and 1.2 are compared with 2, not with each other.
  CHECK(best_steps(best, {2, 1.5, 1.2, 1.2}) == std::vector<int64_t>{0, 20});
}

TEST_CASE("the best value is that of a search through all values") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const bool up = trial % 2 == 0;
    BestValue best({"m", up});
    std::vector<double> values(1 + random() % 12);
    for (double& value : values)
      value = random() % 8 == 0 ? kNan : static_cast<double>(random() % 6);
    best_steps(best, values);
    int64_t first = -1;
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i])) continue;
      const double old = first < 0 ? 0 : values[first];
      if (first < 0 || (up ? values[i] > old : values[i] < old)) first = static_cast<int64_t>(i);
    }
    CHECK((best.best() ? best.best()->step : -10) == first * 10);
  }
}

}  // namespace bv::test
