// Which gradients ranks sum together.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/params/flat_params.h"

namespace bv {

struct BucketRange {
  int64_t begin = 0, end = 0;  // elements of the gradient buffer, gaps included
  std::vector<const FlatParams::Entry*> entries = {};
};

// The gradients of whole parameters, in the order of the buffer, cut between parameters into
// buckets of at least `bytes` (but for the last).
std::vector<BucketRange> bucket_ranges(const FlatParams& params, int64_t bytes);

}  // namespace bv
