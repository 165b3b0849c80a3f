// The ranks of a run, from the command line: where this process stands, and the launcher's role.
#pragma once

#include "app/arguments.h"
#include "lib/dist/place.h"

namespace bv {

// Where this process stands, from the flags and the environment. Throws Error(Exit::usage) for a
// launch environment that contradicts itself or the flags.
dist::Place find_place(const Arguments& arguments);

// The launcher's role (place.launches): starts this program once a rank with the same arguments and
// returns the exit code of the whole.
Exit launch_ranks(const Arguments& arguments, const Config& config, const dist::Place& place);

}  // namespace bv
