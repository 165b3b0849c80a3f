// Whether all ranks of a run see the same workdir.
#pragma once

#include "lib/ckpt/workdir/workdir.h"
#include "lib/distributed/group.h"

namespace bv {

// Throws Error(Exit::usage) on every rank unless all see the file .lock that rank 0 holds. Other
// ranks read and write the workdir only if the state is sharded: each then has a part of every
// checkpoint. All ranks must call this, after rank 0 has claimed the workdir. Throws Stopped if a
// signal comes while it waits for the file to appear.
void check_shared(Group& group, const Workdir& workdir);

}  // namespace bv
