// Slurm's compressed lists of hosts ("n[001-003,7],gpu-a[1-2]-ib[0-1]") and counts ("4(x2),1").
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bv {

// Returns the host names in slurm's order. Brackets hold numbers and ranges, separated by commas. A
// number keeps the leading zeros of the range's lower bound ("[001-003]"). With several brackets in
// a name all combinations are returned; the last bracket varies fastest. Throws Error(Exit::usage)
// "<where>: error: ..." for invalid text, nested or unclosed brackets, descending ranges, and more
// than 65,536 hosts.
std::vector<std::string> parse_hostlist(std::string_view text, std::string_view where);

// Parses SLURM_STEP_TASKS_PER_NODE: "2(x3),1" is {2, 2, 2, 1}. Throws what parse_hostlist() throws.
std::vector<int> parse_counts(std::string_view text, std::string_view where);

}  // namespace bv
