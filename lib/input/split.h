// Split expressions in TFDS's grammar: "train", "train[:99%]", "train[51200:]", "train[-100:]",
// "train[:80%]+test". Percentages are rounded to the nearest example (halves to even).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/config/config.h"

namespace bv {

// One term of a split expression.
struct SplitTerm {
  struct Bound {
    int64_t value = 0;
    bool percent = false;
  };
  std::string text;                 // "train[:99%]"
  std::string base;                 // "train"
  std::optional<Bound> begin, end;  // nullopt where the bound is left out

  // Returns [begin, end) for a split of n examples. Throws Error(Exit::usage) at `place` if a bound
  // is outside the split or the range is empty.
  std::pair<int64_t, int64_t> range(int64_t n, const Place& place) const;
};

// Parses a split expression. Throws Error(Exit::usage) at `place`:
// "x.yaml:5:12: error: bad split 'train[:': ...".
std::vector<SplitTerm> parse_split(const std::string& expression, const Place& place);

}  // namespace bv
