#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/input/dataset.h"
#include "lib/input/pipeline.h"

namespace bv {

// Reads example `index` and applies `pp` to it, in the calling thread. `position` is the example's
// position in the loader's stream: augmentation draws from Rng(seed, Purpose::augment, position,
// {index, pass}).
Example compute_example(const Dataset& data, const Pipeline& pp, uint64_t seed, int64_t position,
                        int64_t index, int64_t pass = 0);

// Removes all features but those in `names`. Empty `names` keep all.
void keep_features(Example& example, const std::vector<std::string>& names);

}  // namespace bv
