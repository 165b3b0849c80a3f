// Where a test finds parameters in flat buffers of a FlatParams that does not shard anything.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lib/params/flat_params.h"

namespace bv::test {

// Returns the views of `flat` (data() or a state buffer) at the parameters' offsets, by
// prefix + name, with the parameters' shapes and strides.
inline std::vector<std::pair<std::string, at::Tensor>> flat_views(const FlatParams& params,
                                                                  const at::Tensor& flat,
                                                                  const std::string& prefix) {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (const FlatParams::Entry& entry : params.entries()) {
    if (entry.offset + entry.numel > flat.numel()) break;
    all.emplace_back(prefix + entry.name, flat.as_strided(entry.shape, entry.strides,
                                                          flat.storage_offset() + entry.offset));
  }
  return all;
}

// Returns [begin, end) of an optimizer group in data(), gaps included.
inline std::pair<int64_t, int64_t> group_range(const FlatParams& params, int group) {
  int64_t begin = -1, end = -1;
  for (const FlatParams::Entry& entry : params.entries()) {
    if (entry.group != group) continue;
    if (begin < 0) begin = entry.offset;
    end = entry.offset +
          (entry.numel + FlatParams::kAlign - 1) / FlatParams::kAlign * FlatParams::kAlign;
  }
  return {begin, end};
}

}  // namespace bv::test
