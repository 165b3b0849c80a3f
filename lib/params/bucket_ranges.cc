#include "lib/params/bucket_ranges.h"

#include <algorithm>

namespace bv {

std::vector<BucketRange> bucket_ranges(const FlatParams& params, int64_t bytes) {
  const int64_t least = std::max<int64_t>(bytes / static_cast<int64_t>(sizeof(float)), 1);
  std::vector<BucketRange> ranges;
  for (const FlatParams::Slice& slice : params.slices(FlatParams::BufferKind::grads)) {
    if (!slice.whole) break;  // whole parameters come first
    if (ranges.empty() || slice.offset - ranges.back().begin >= least) {
      if (!ranges.empty()) ranges.back().end = slice.offset;
      ranges.push_back({.begin = slice.offset});
    }
    ranges.back().entries.push_back(slice.entry);
  }
  if (!ranges.empty()) ranges.back().end = params.whole_grad_size();
  return ranges;
}

}  // namespace bv
