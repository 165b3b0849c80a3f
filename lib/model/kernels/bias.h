// Passes over a matrix that add a bias, or compute its gradient. They compute in float32, and their
// results do not depend on the number of threads.
#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// Adds bias[j] to y[:, j, :], in place. y (n, m, features) is contiguous, float32 or bfloat16; bias
// (m) is float32.
void add_bias_of_rows(const at::Tensor& y, const at::Tensor& bias);

// Takes x (n, m, features), float32 or bfloat16, and returns its sums over n and over the features,
// (m) float32.
at::Tensor sum_rows(const at::Tensor& x);

// Takes x (rows, columns), float32 or bfloat16, and returns the sum of each column, (columns)
// float32.
at::Tensor sum_columns(const at::Tensor& x);

}  // namespace bv
