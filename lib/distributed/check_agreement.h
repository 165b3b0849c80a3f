// Checks at the start of a run that all ranks were started in the same way.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lib/distributed/group.h"

namespace bv {

// Compares values over ranks, for example {"config", hash}. All ranks must call this with the same
// keys in the same order. Throws Error(Exit::usage) on every rank if a value differs; it names the
// key, the ranks and both values: "config: error: ranks 2, 3 have 'b1', rank 0 has 'a0'".
void check_agreement(Group& group, const std::vector<std::pair<std::string, std::string>>& facts);

// Compares one value over ranks. Returns a message for each value that is not rank 0's: "ranks 2, 3
// have 'b1', rank 0 has 'a0'". All ranks must call this, and all get the same messages.
std::vector<std::string> disagreements(Group& group, const std::string& value);

}  // namespace bv
