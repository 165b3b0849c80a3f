// Initializers of parameters. Element i (row-major in the parameter's shape) is a pure function of
// (key, i): values do not depend on the memory layout, the number of threads or the order in which
// parameters are initialized.
#pragma once

#include <cstdint>

#include "lib/config/key_table.h"
#include "lib/model/module.h"

namespace bv {

Init zeros();
Init ones();
Init constant(double value);
// Normal with mean 0.
Init normal(double stddev);
// Uniform in [-bound, bound].
Init uniform(double bound);
// A normal truncated at two of its standard deviations, scaled to have the standard deviation
// sqrt(1 / fan_in) after truncation (flax's lecun_normal).
Init lecun_normal(int64_t fan_in);
// The same with the standard deviation sqrt(2 / fan_in) (flax's he_normal).
Init he_normal(int64_t fan_in);
// Uniform in +-sqrt(6 / (fan_in + fan_out)) (flax's xavier_uniform).
Init xavier_uniform(int64_t fan_in, int64_t fan_out);
// For the kernel (k, k, in, out) of a convolution with odd k: output channel i < in starts as input
// channel i, and the others by `rest`.
Init identity(Init rest);
// Applies `init` to each slice of the leading axis, each with its own key.
Init stacked(Init init);

// The row of `head_zeroinit` in the models that have it.
inline constexpr KeyText kHeadZeroinit = {
    "head_zeroinit", "bool", "true",
    "Whether the classification layer starts with zero weights, so that all images have the same "
    "logits before training. With `false` the weights are random (LeCun normal)."};

}  // namespace bv
