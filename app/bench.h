// The subcommands of `bvtrain bench`.
#pragma once

#include "app/arguments.h"

namespace bv {

// bench collectives: measures the collectives between the ranks of --devices, by size.
Exit bench_collectives(const Arguments& arguments);
// bench memory: measures what the memory of a device goes to, and the largest batch that fits.
Exit bench_memory(const Arguments& arguments);
// bench operators: what the operators of a step compute and move, and the least time for that on a
// GPU.
Exit bench_operators(const Arguments& arguments);
// bench scaling: predicts the training steps of many processes.
Exit bench_scaling(const Arguments& arguments);

}  // namespace bv
