// Mixup (Zhang et al. 2018) as in big_vision's utils.py, `get_mixup`: each example is mixed with
// the one before it, with one coefficient for the whole step. The key is read and applied here.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "lib/config/config.h"
#include "lib/distributed/group.h"
#include "lib/input/image/normalize.h"
#include "lib/input/loader/loader.h"

namespace bv {

struct MixupConfig {
  double p = 0;  // the coefficient is drawn from Beta(p, p); 0: no mixup
  // Examples are paired within a rank, as in big_vision, not over the whole batch.
  bool by_rank = false;
  // With by_rank: the ranks whose examples this process holds, in equal parts. More than one in a
  // replay, which repeats the steps of all ranks in one process.
  int ranks_here = 1;
};
// Reads the key `mixup` of a run's config. Records problems with the config, and a warning if pairs
// are made across `ranks` ranks, or if each image is paired with itself. `batch_size`: of all ranks
// together; 0: not known.
MixupConfig read_mixup(const Config& config, int ranks = 1, int64_t batch_size = 0);

// Prepares this rank's part of a batch for the model. If "image" is uint8, normalizes it as
// `normalization` says; then mixes "image" and "labels" as `shares` says if config.p is positive.
// May overwrite the tensors of the batch.
void prepare_batch(const MixupConfig& config, const std::optional<Normalization>& normalization,
                   const at::Tensor& shares, Batch& batch, Group& group);

// Returns max(a, 1 - a) with a drawn from Beta(p, p): a number in [0.5, 1] that depends on `seed`
// and `step` alone. Without mixup (p = 0) it is 1.
double mixup_coefficient(uint64_t seed, int64_t step, double p);
// Returns the shares of mix() for the coefficient a: {a, 1 - a}, (2) float32 on the CPU.
at::Tensor mixup_shares(double a);

// Sets x[i] = shares[0] x[i] + shares[1] x[i - 1] in place, where x[-1] is the last example. x is
// the whole batch, of which each rank of `group` holds an equal part in `examples`: float32,
// contiguous, (n, ...). `shares`: (2) float32 on the same device. Throws Error(Exit::usage) naming
// `key` for another dtype.
void mix(const at::Tensor& examples, const at::Tensor& shares, const char* key,
         Group& group = Group::single());

}  // namespace bv
