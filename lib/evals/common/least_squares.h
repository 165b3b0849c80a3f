// Linear regression for few-shot classification, as in big_vision's evaluators/fewshot_lsr.py
// (`_precompute_cache`, `_eig_fewshot_acc_fn`), and the choice of its training examples. It
// computes in float64, and solves by Cholesky where big_vision has an eigendecomposition in
// float32.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lib/evals/common/numpy_rng.h"

namespace bv {

// L2-regularized least squares on labels in {-1, 1}, in closed form. One object serves any number
// of regularizers.
class LeastSquares {
 public:
  // x: (n, d); y: (n) int64 in [0, classes). Features are standardized with the mean and standard
  // deviation (population's, + 1e-5) of x, and a constant feature of 100 is appended.
  LeastSquares(const at::Tensor& x, const at::Tensor& y, int64_t classes);

  // Returns the weights (d + 1, classes): (X^T X + l2 I)^-1 X^T Y if n > d, otherwise
  // X^T (X X^T + l2 I)^-1 Y.
  at::Tensor weights(double l2) const;
  // Returns the scores (n, classes) of x (n, d).
  at::Tensor predict(const at::Tensor& x, const at::Tensor& weights) const;

 private:
  at::Tensor standardised(const at::Tensor& x) const;  // (n, d + 1)
  at::Tensor mean_, std_;                              // (1, d); std_ includes the 1e-5
  at::Tensor x_, y_;                                   // standardized features, labels in {-1, 1}
  at::Tensor gram_;                                    // the smaller of X^T X and X X^T
};

// Returns for each class the indices of its examples, randomly permuted. `rng` goes through the
// classes in order.
std::vector<std::vector<int64_t>> permuted_classes(const at::Tensor& labels, int64_t classes,
                                                   NumpyRng rng);
// Returns the first `shots` indices of each class (all of them if it has fewer), class by class:
// (n) int64.
at::Tensor take_shots(const std::vector<std::vector<int64_t>>& classes, int64_t shots);

}  // namespace bv
