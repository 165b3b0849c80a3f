#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "lib/model/module.h"
#include "lib/model/pass.h"

namespace bv {

struct BatchStatistics;

// Batch normalization of (n, c, h, w) over n, h and w, followed by ReLU. Training normalizes with
// the statistics of the batch (of all ranks in pass.group) and moves the running statistics towards
// them. Evaluation normalizes with the running statistics. If both parameters are frozen, training
// does the same and leaves the running statistics as they are.
struct BatchNorm {
  at::Tensor scale, bias;  // (c)
  at::Tensor mean, var;    // (c), running statistics; var is the unbiased estimate

  // A step keeps kMomentum of the running statistics and takes the rest from the batch.
  static constexpr double kEps = 1e-5, kMomentum = 0.9;
  // Registers the parameters `name`/{scale, bias} and the buffers `name`/{mean, var}.
  static BatchNorm add(Module& owner, const std::string& name, int64_t channels);
  // Returns relu(normalized x) in the type of x. With max_pool a 2x2 max pool follows.
  at::Tensor relu(const at::Tensor& x, bool max_pool, const Pass& pass) const;

 private:
  // Whether neither parameter is trained.
  bool is_frozen() const { return !scale.requires_grad() && !bias.requires_grad(); }
  BatchStatistics training_statistics(const at::Tensor& x, const Pass& pass) const;
};

}  // namespace bv
