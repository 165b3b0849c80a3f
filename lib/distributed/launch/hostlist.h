// Slurm's compressed lists: of hosts ("n[001-003,7],gpu-a[1-2]-ib[0-1]") and of counts ("4(x2),1").
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bv {

// The host names in slurm's order: brackets hold numbers and ranges, joined by ','; a number keeps
// the zeros of its lower bound ("[001-003]"); several brackets of a name multiply, the last one
// running fastest. Throws Error(Exit::usage) "<where>: error: ..." for what is no list, for a
// nested or open bracket, for a range that runs backwards, and for more than 65,536 hosts.
std::vector<std::string> parse_hostlist(std::string_view text, std::string_view where);

// "2(x3),1" -> {2, 2, 2, 1}: SLURM_STEP_TASKS_PER_NODE. Throws as above.
std::vector<int> parse_counts(std::string_view text, std::string_view where);

}  // namespace bv
