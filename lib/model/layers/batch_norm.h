#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "lib/model/module.h"
#include "lib/model/pass.h"

namespace bv {

struct BatchStatistics;

// Batch normalisation of (n, c, h, w) over n, h and w, followed by ReLU. Training normalises with
// the statistics of the batch (of all ranks in pass.group) and moves the running ones towards them;
// evaluation normalises with the running ones.
struct BatchNorm {
  at::Tensor scale, bias;  // (c)
  at::Tensor mean, var;    // (c), running statistics; var is the unbiased estimate

  // A step keeps kMomentum of the running statistics and takes the rest from the batch.
  static constexpr double kEps = 1e-5, kMomentum = 0.9;
  // Registers the parameters `name`/{scale, bias} and the buffers `name`/{mean, var}.
  static BatchNorm add(Module& owner, const std::string& name, int64_t channels);
  // Returns relu(normalised x) in the type of x. With max_pool a 2x2 max pool follows.
  at::Tensor relu(const at::Tensor& x, bool max_pool, const Pass& pass) const;

 private:
  BatchStatistics training_statistics(const at::Tensor& x, const Pass& pass) const;
};

}  // namespace bv
