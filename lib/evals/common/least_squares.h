// L2-regularised least squares on {-1, 1} labels in closed form, and its few-shot training sets
// (reference 13.4). Everything is float64.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lib/evals/common/numpy_rng.h"

namespace bv {

// X^T X or X X^T of a training set, for any number of regularisers.
class LeastSquares {
 public:
  // x: (n, d); y: (n) int64, 0 <= y < classes. Features are standardised (the population's standard
  // deviation + 1e-5) and get a constant one of 100.
  LeastSquares(const at::Tensor& x, const at::Tensor& y, int64_t classes);

  at::Tensor mean() const { return mean_; }  // (1, d)
  at::Tensor std() const { return std_; }    // (1, d), the 1e-5 included
  // (d + 1, classes): (X^T X + l2 I)^-1 X^T Y where n > d, else X^T (X X^T + l2 I)^-1 Y.
  at::Tensor weights(double l2) const;
  // (n, d) to scores (n, classes).
  at::Tensor predict(const at::Tensor& x, const at::Tensor& weights) const;

 private:
  at::Tensor standardised(const at::Tensor& x) const;  // (n, d + 1)
  at::Tensor mean_, std_, x_, y_;
  at::Tensor gram_;  // the smaller of X^T X and X X^T
};

// Indices of each class's examples in the order of the data, permuted; one generator for all
// classes.
std::vector<std::vector<int64_t>> permuted_classes(const at::Tensor& labels, int64_t classes,
                                                   NumpyRng rng);
// The first `shots` of each class (fewer where it has fewer), class by class: (n) int64.
at::Tensor take_shots(const std::vector<std::vector<int64_t>>& classes, int64_t shots);

}  // namespace bv
