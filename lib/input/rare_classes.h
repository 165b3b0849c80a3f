// Whether it is plain chance that a part of a data set has no example of some classes.
#pragma once

#include <cstdint>
#include <map>
#include <set>

namespace bv {

// `counts`: the examples of each class in the whole. `lost`: the classes of which the part has
// none. `share`: the part's share of the examples, 0 to 1. Returns whether a random choice of as
// many examples may lack these classes too, or others that are as frequent.
bool lost_by_chance(const std::map<int64_t, int64_t>& counts, const std::set<int64_t>& lost,
                    double share);

}  // namespace bv
