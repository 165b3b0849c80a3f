// Dropout from counter-based random numbers, at the places where big_vision's models/vit.py has it.
#pragma once

#include <ATen/core/Tensor.h>

#include "lib/model/pass.h"

namespace bv {

// Inverted dropout: zeroes elements with probability `rate` in [0, 1) and divides the others by
// 1 - rate. Returns x unchanged unless pass.train is set and rate > 0.
//
// Each call takes the next number k from pass.next_dropout. Whether element i (row-major in x's
// shape, counted in the whole batch if x is one rank's part of it) is dropped depends only on
// (pass.seed, pass.step, k, i), so results do not depend on the number of ranks or threads.
at::Tensor dropout(const at::Tensor& x, double rate, Pass& pass);

// Returns a random mask of the given shape, whose first dimension counts examples. Each element is
// 0 with probability `rate` in [0, 1], and `kept` otherwise. The mask has the device and the type
// of `options`. It depends on the same numbers as that of dropout().
at::Tensor random_mask(at::IntArrayRef shape, double rate, double kept,
                       const at::TensorOptions& options, Pass& pass);

}  // namespace bv
