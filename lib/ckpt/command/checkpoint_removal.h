// Removing checkpoints that are no longer wanted: what `bvtrain ckpt rm` does.
//
// The newest checkpoint that verifies stays, because the run continues from it. The best ones stay
// too. No run may use the workdir meanwhile: the caller holds its lock.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/ckpt/workdir/workdir.h"

namespace bv {

// Returns `steps` in ascending order, without duplicates. Throws Error(Exit::usage) if there is no
// checkpoint of one of them, or if one is the newest that verifies.
std::vector<int64_t> removable_steps(const CkptFolder& ckpt, const std::vector<int64_t>& steps);

// Returns all steps except that of the newest checkpoint that verifies. Throws Error(Exit::usage)
// if there is none that verifies.
std::vector<int64_t> all_but_newest(const CkptFolder& ckpt);

// Throws Error(Exit::usage) unless the checkpoints are those of the steps `before`. For the holder
// of the workdir's lock, because a run may have saved and deleted some before the lock was taken.
void require_unchanged(const CkptFolder& ckpt, const std::vector<int64_t>& before);

struct RemovedCheckpoint {
  int64_t step = 0;
  // Bytes of the files that had no other hard link, as in ckpt/best; 0 for a symbolic link.
  uint64_t freed = 0;
};

// Removes the checkpoints of these steps, which must exist. With `dry` it only returns what it
// would remove. Throws Error(Exit::storage).
std::vector<RemovedCheckpoint> remove_checkpoints(const CkptFolder& ckpt,
                                                  const std::vector<int64_t>& steps, bool dry);

}  // namespace bv
