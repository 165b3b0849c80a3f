#include "lib/params/bucket_ranges.h"

#include <algorithm>

namespace bv {

std::vector<BucketRange> bucket_ranges(const FlatParams& params, int64_t bytes) {
  const int64_t least = std::max<int64_t>(bytes / static_cast<int64_t>(sizeof(float)), 1);
  std::vector<BucketRange> ranges;
  for (const FlatParams::Stretch& place : params.stretches(FlatParams::Space::grads)) {
    if (!place.whole) break;  // whole ones come first
    if (ranges.empty() || place.at - ranges.back().begin >= least) {
      if (!ranges.empty()) ranges.back().end = place.at;
      ranges.push_back({.begin = place.at});
    }
    ranges.back().entries.push_back(place.entry);
  }
  if (!ranges.empty()) ranges.back().end = params.whole_grads();
  return ranges;
}

}  // namespace bv
