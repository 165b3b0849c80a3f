#pragma once

#include <ATen/core/Tensor.h>

#include "lib/model/model.h"

namespace bv {

// Stochastic depth as big_vision's mlp_mixer has it (reference section 9.2): y (n, ...) with the
// branch of each example zeroed with probability `rate` in [0, 1], the others as they are (not
// divided by 1 - rate). Identity unless pass.train and rate > 0. Counts itself in
// pass.next_dropout; example i is dropped or not by (pass.seed, pass.step, count, i) alone.
at::Tensor stochastic_depth(const at::Tensor& y, double rate, Pass& pass);

}  // namespace bv
