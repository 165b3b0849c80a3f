// Divides the gradient buffer into the buckets that ranks all-reduce together.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/params/flat_params.h"

namespace bv {

struct BucketRange {
  int64_t begin = 0, end = 0;  // elements of FlatParams::grads(), gaps included
  std::vector<const FlatParams::Entry*> entries = {};
};

// Returns buckets that cover the gradients of whole parameters, in buffer order. A bucket ends
// between two parameters and has at least `bytes` bytes, except for the last one.
std::vector<BucketRange> bucket_ranges(const FlatParams& params, int64_t bytes);

}  // namespace bv
