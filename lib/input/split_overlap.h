// Examples that two split expressions of one data set have in common: for the warning that a run
// evaluates on examples that it trains on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/input/source.h"
#include "lib/util/place.h"

namespace bv {

struct SplitOverlap {
  int64_t shared = 0;  // examples that one of the other expressions selects too
  int64_t all = 0;     // examples that the expression selects; 0 if it selects other splits too
};

// Compares the split expression `evaluated` with the expressions `trained`, all for `source`. Reads
// no examples. Asks `source` only for the sizes of splits that both sides select, because it may
// have to scan files for the others. Counts nothing for a fold and a slice if only the order of the
// examples would tell what they share, as for train[:50%] and train[fold 1/5]. Throws
// Error(Exit::usage) at `place` if an expression is malformed or out of bounds.
SplitOverlap split_overlap(const Source& source, const std::string& evaluated,
                           const std::vector<std::string>& trained, const Place& place);

}  // namespace bv
