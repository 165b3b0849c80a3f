// Kernels of batch normalization. The layer is lib/model/layers/batch_norm.h.
#pragma once

#include <ATen/core/Tensor.h>

#include "lib/distributed/group.h"

namespace bv {

// Statistics of activations (n, c, h, w) over n, h and w.
struct BatchStatistics {
  at::Tensor mean, var;             // (c) float32; var is the biased estimate
  double rows = 0;                  // values per channel: n * h * w, summed over ranks
  Group* group = &Group::single();  // the ranks whose examples these are; never null
  bool constant = false;            // they do not depend on x: running statistics
};

// Returns whether the fused CPU kernels support x: (n, c, h, w), float32 or bfloat16,
// channels_last, c a multiple of 16; for a max pool also h and w even.
bool batch_norm_fits(const at::Tensor& x, bool max_pool);

// Computes the statistics of any x (n, c, h, w) over all ranks of `group`, which must have equal
// parts. The CPU kernel sums float32 chunks in double precision; the result does not depend on the
// number of threads.
BatchStatistics batch_statistics(const at::Tensor& x, Group& group = Group::single());

// Returns relu((x - mean) / sqrt(var + eps) * scale + bias) in the type of x, followed by a 2x2 max
// pool if `max_pool`. Requires batch_norm_fits(x, max_pool). The gradients of x, scale and bias are
// right only if `statistics` are those of x itself. If they are constant, only x has a gradient.
at::Tensor batch_norm_relu(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& bias,
                           const BatchStatistics& statistics, double eps, bool max_pool);

// Returns (x - mean) / sqrt(var + eps) * scale + bias in the type of x, for floating-point x
// (n, c, h, w) on any device. Gradients as above.
at::Tensor batch_norm_over_ranks(const at::Tensor& x, const at::Tensor& scale,
                                 const at::Tensor& bias, const BatchStatistics& statistics,
                                 double eps);

}  // namespace bv
