// The subcommands of `bvtrain bench`.
#pragma once

#include "app/arguments.h"

namespace bv {

// bench collectives: measures the collectives between the ranks of --devices, by size.
Exit bench_collectives(const Arguments& arguments);
// bench memory: measures what uses the memory of a device, and the largest batch that fits.
Exit bench_memory(const Arguments& arguments);
// bench operators: what the operators of a step compute and move, and the minimum time for that on
// a GPU.
Exit bench_operators(const Arguments& arguments);
// bench scaling: predicts the training steps of many processes.
Exit bench_scaling(const Arguments& arguments);

}  // namespace bv
