#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/distributed/group.h"

namespace bv {

// An example that a loader has skipped because it cannot be read.
struct FailedExample {
  int64_t index = 0;                                   // in the data set
  std::string name;                                    // "train/cat/17.jpg", in UTF-8
  std::string reason;                                  // "truncated JPEG"
  std::optional<std::vector<std::string>> files = {};  // Dataset::files_of(), in UTF-8
};

// Returns `text` with bytes that are not UTF-8 replaced, as they are in skipped.jsonl, so that a
// continued run recognizes the name.
std::string in_utf8(const std::string& text);

// Returns the examples of all ranks, rank after rank, on every rank. All ranks must call this.
std::vector<FailedExample> gather_failed(Group& group, const std::vector<FailedExample>& mine);

}  // namespace bv
