// Single examples after pp, computed in the calling thread: what is looked at before a run begins.
#pragma once

#include <cstdint>

#include "lib/input/op.h"
#include "lib/input/source.h"

namespace bv {

// Example `index` as the one at `position` of the stream: augmented with Rng(seed, augment,
// position).
Example compute_example(const Dataset& data, const Pipeline& pp, uint64_t seed, int64_t position,
                        int64_t index);

// Computes a few examples more than the first, whose form is `form`: the second, and where the
// labels are known one of the smallest and one of the largest, since those tell whether all fit.
// Error(Exit::usage) "error: train row 500: onehot: 'label' is 10, must be within 0 .. 9", also
// where shapes differ from the form's; what a wrong config brings about keeps its place in it.
void check_more_examples(const Dataset& data, const Pipeline& pp, uint64_t seed,
                         const Example& form);

}  // namespace bv
