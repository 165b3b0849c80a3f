#pragma once

#include <ATen/core/Tensor.h>

#include "lib/distributed/group.h"

namespace bv {

// Mean and biased variance over n, h, w: (c) float32. Of all ranks' parts, where there are several.
struct BatchStatistics {
  at::Tensor mean, var;
  double rows = 0;         // values a channel
  Group* group = nullptr;  // null: this process has all of them
};

// Whether the kernels below take x: (n, c, h, w), float32 or bfloat16, channels_last on a CPU, c a
// multiple of 16; for a max pool h and w even.
bool batch_norm_fits(const at::Tensor& x, bool max_pool);

// Of any x (n, c, h, w). What the kernels take is computed in float32 pieces added up in double
// precision, in an order that does not depend on the number of threads.
BatchStatistics batch_statistics(const at::Tensor& x, Group* group = nullptr);

// relu((x - mean) / sqrt(var + eps) * scale + bias), then where asked a max pool of 2x2, in one
// pass and in x's type. Gradients (of x, scale, bias) are those of normalising with the batch's own
// statistics.
at::Tensor batch_norm_relu(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& bias,
                           const BatchStatistics& statistics, double eps, bool max_pool);

// (x - mean) / sqrt(var + eps) * scale + bias in x's type, for any float x (n, c, h, w) on any
// device; gradients as above.
at::Tensor batch_norm_over_ranks(const at::Tensor& x, const at::Tensor& scale,
                                 const at::Tensor& bias, const BatchStatistics& statistics,
                                 double eps);

}  // namespace bv
