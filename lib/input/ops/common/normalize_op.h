// What value_range, vgg_value_range and clip_value_range share.
#pragma once

#include <vector>

#include "lib/input/image/normalize.h"
#include "lib/input/ops/common/tensor_op.h"

namespace bv {

class NormalizeOp : public TensorOp {
 protected:
  using TensorOp::TensorOp;
  // args[key]: a number or a list of one number a channel, at least one.
  static std::vector<double> numbers(const Config& args, std::string_view key,
                                     std::vector<double> fallback);
  // (x - mean) / std of these arguments, mean read first.
  void read_mean_std(const Config& args, const std::vector<double>& mean,
                     const std::vector<double>& std);
  Normalization how_;

 private:
  at::Tensor map(const at::Tensor& x, bool batched, std::span<Rng> rngs) const final;
};

}  // namespace bv
