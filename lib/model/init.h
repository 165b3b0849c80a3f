// How parameters start. Element i (row-major index in the parameter's logical shape) is drawn from
// a Philox block addressed by (key, i): the same value whatever the memory layout, the number of
// threads or the order in which parameters are filled.
#pragma once

#include <cstdint>

#include "lib/model/model.h"

namespace bv {

Init zeros();
Init ones();
Init constant(double value);
Init normal(double stddev);
Init uniform(double bound);  // in [-bound, bound]
// Truncated normal at two standard deviations of the underlying normal, with standard deviation
// sqrt(1 / fan_in) after truncation (flax lecun_normal).
Init lecun_normal(int64_t fan_in);
// The same with sqrt(2 / fan_in) (flax he_normal).
Init he_normal(int64_t fan_in);
Init xavier_uniform(int64_t fan_in, int64_t fan_out);  // +-sqrt(6 / (fan_in + fan_out))
// `init` for each slice of a leading axis, with a key of its own.
Init stacked(Init init);

}  // namespace bv
