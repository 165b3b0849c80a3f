#pragma once

#include <ATen/core/Tensor.h>

#include "lib/model/pass.h"

namespace bv {

// Stochastic depth as in big_vision's models/mlp_mixer.py (MixerBlock): zeroes the branch y (n,
// ...) of each example with probability `rate` in [0, 1]. The others are not divided by 1 - rate.
// Returns y unchanged unless pass.train is set and rate > 0.
//
// Each call takes the next number k from pass.next_dropout. Whether example i of the whole batch is
// dropped depends only on (pass.seed, pass.step, k, i).
at::Tensor stochastic_depth(const at::Tensor& y, double rate, Pass& pass);

}  // namespace bv
