// Mixup (Zhang et al. 2018) as in reference section 8.2: one coefficient a step, each example mixed
// with the one before it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "lib/config/config.h"
#include "lib/distributed/group.h"

namespace bv {

// mixup: {p: 0.2, scope: global}
struct MixupConfig {
  double p = 0;          // of Beta(p, p); 0 = off
  bool by_rank = false;  // scope: shard, the reference's: pairs are made within a rank's examples
};
MixupConfig read_mixup(const Config& mixup);

// max(a, 1 - a) with a from Beta(p, p): a number in [0.5, 1], a function of (seed, step).
double mixup_coefficient(uint64_t seed, int64_t step, double p);

// In place: x[i] = a x[i] + (1 - a) x[i - 1], where x[-1] is the last example, of the whole batch
// if `examples` is a rank's part of one and a group is given. `examples`: float32, contiguous, (n,
// ...). Throws Error(Exit::usage) naming `key` for another type.
void mix(at::Tensor& examples, double a, const char* key, Group* group = nullptr);

}  // namespace bv
