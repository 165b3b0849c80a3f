// The ranks of a run, from the flags of the command line and the environment.
#pragma once

#include "app/arguments.h"
#include "lib/distributed/launch/rank_layout.h"

namespace bv {

// Throws Error(Exit::usage) for launch flags that are wrong on every host and under every launcher.
// Called for --dry-run and --explain too.
void check_launch_flags(const Arguments& arguments);

// Returns this process's place among the ranks. `devices` must be resolved. Throws
// Error(Exit::usage) for a launch environment that contradicts itself or the flags.
RankLayout find_rank_layout(const Arguments& arguments, const Devices& devices);

// Acts as the launcher: starts this program with the same arguments once for each rank and waits
// for them. Only if layout.launches. Returns the exit code of the whole run.
Exit launch_ranks(const Arguments& arguments, const Config& config, const RankLayout& layout);

}  // namespace bv
