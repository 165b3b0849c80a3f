// The ranks of a run, from the command line: where this process stands, and the launcher's role.
#pragma once

#include "app/arguments.h"
#include "lib/distributed/launch/rank_layout.h"

namespace bv {

// For every use of a config: throws Error(Exit::usage) for flags that are wrong on any host and
// under any launcher.
void check_launch_flags(const Arguments& arguments);

// Where this process stands, from the flags and the environment; `devices` are resolved. Throws
// Error(Exit::usage) for a launch environment that contradicts itself or the flags.
RankLayout find_rank_layout(const Arguments& arguments, const Devices& devices);

// The launcher's role (place.launches): starts this program once a rank with the same arguments and
// returns the exit code of the whole.
Exit launch_ranks(const Arguments& arguments, const Config& config, const RankLayout& place);

}  // namespace bv
