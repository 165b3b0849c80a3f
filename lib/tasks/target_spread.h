// The spread of a regression target over the training data, and whether a model can learn it.
#pragma once

#include <cstdint>
#include <string>

namespace bv {

// The running mean and standard deviation (Welford's method), and the extremes.
class RunningSpread {
 public:
  void add(double value);

  int64_t count() const { return count_; }
  double least() const { return least_; }
  double most() const { return most_; }
  double mean() const { return mean_; }
  double std() const;
  bool constant() const { return least_ == most_; }
  // Returns the spacing of float32 numbers near the largest value.
  double float_step() const;

 private:
  int64_t count_ = 0;
  double mean_ = 0, squares_ = 0, least_ = 0, most_ = 0;
};

// Returns why a target with normalize_targets cannot be learned: it is constant, or float32, in
// which the model learns, cannot distinguish its values. "" if it can. `target`: its name for the
// message, "target 0". The count is not 0.
std::string unlearnable(const RunningSpread& spread, const std::string& target);

}  // namespace bv
