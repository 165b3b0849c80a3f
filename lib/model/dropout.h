#pragma once

#include <ATen/core/Tensor.h>

#include "lib/model/model.h"

namespace bv {

// Inverted dropout: zeroes elements with probability `rate` in [0, 1), divides the others by
// 1 - rate. Identity unless pass.train and rate > 0. Counts itself in pass.next_dropout. Element i
// (row-major in x's logical shape, of the whole batch where x is a rank's part) is kept or not by
// (pass.seed, pass.step, count, i) alone.
at::Tensor dropout(const at::Tensor& x, double rate, Pass& pass);

}  // namespace bv
