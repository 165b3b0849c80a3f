// What `bvtrain bench` has besides the measurement of a config.
#pragma once

#include "app/arguments.h"

namespace bv {

// bench collectives: seconds of each collective by size, between the ranks of --devices.
Exit bench_collectives(const Arguments& arguments);
// bench scaling: predicted steps of many processes.
Exit bench_scaling(const Arguments& arguments);

}  // namespace bv
