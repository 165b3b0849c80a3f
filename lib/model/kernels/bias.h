// Passes over a matrix that add a bias, or compute its gradient. They compute in float32, and their
// results do not depend on the number of threads.
#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// Adds bias[j] to y[:, j, :], in place. y (n, m, features) is contiguous, float32 or bfloat16; bias
// (m) is float32.
void add_bias_of_rows(const at::Tensor& y, const at::Tensor& bias);

// Returns the sums over n and features of x (n, m, features): (m) float32. x is float32 or
// bfloat16.
at::Tensor sum_rows(const at::Tensor& x);

// Returns the sums over the rows of x (rows, columns): (columns) float32. x is float32 or bfloat16.
at::Tensor sum_columns(const at::Tensor& x);

}  // namespace bv
