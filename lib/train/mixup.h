// Mixup (Zhang et al. 2018) as in reference section 8.2: one coefficient a step, each example mixed
// with the one before it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "lib/config/config.h"

namespace bv {

// mixup: {p: 0.2}. Returns p of Beta(p, p); 0 = off.
double read_mixup(const Config& mixup);

// max(a, 1 - a) with a from Beta(p, p): a number in [0.5, 1], a function of (seed, step).
double mixup_coefficient(uint64_t seed, int64_t step, double p);

// In place: x[i] = a x[i] + (1 - a) x[i - 1], where x[-1] is the last example. `examples`: float32,
// contiguous, (n, ...). Throws Error(Exit::usage) naming `key` for another type.
void mix(at::Tensor& examples, double a, const char* key);

}  // namespace bv
