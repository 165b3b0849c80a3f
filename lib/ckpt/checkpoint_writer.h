// Writing the folder of one checkpoint, before it is committed.
#pragma once

#include <cstdint>
#include <string>

#include "lib/ckpt/snapshot.h"
#include "lib/report/storage_retries.h"
#include "lib/util/error.h"

namespace bv {

// A rank could not write its part, nor tell rank 0 so.
struct UntoldFailure : Error {
  explicit UntoldFailure(const Error& failure) : Error(failure) {}
};

// Writes this rank's part of a checkpoint into `folder`, which is created if it is missing: the
// file of its tensors and, on rank 0, the manifest, on other ranks the part file. Rank 0 first
// waits for the part files of all other ranks. Everything is synced except part files. What fails
// is tried again; throws Error(Exit::storage) if it fails for good. A rank that gives up tells rank
// 0, which then gives up, too; it throws UntoldFailure if it cannot.
void write_checkpoint(const std::string& folder, const Snapshot& snapshot, bool keep,
                      const Writers& writers, StorageRetries& retries);

// Throws Error(Exit::storage) at `folder` if its file system has fewer than `bytes` left: "needs
// 1.5 GiB for the next checkpoint, but only 20 MiB are free".
void require_room(const std::string& folder, int64_t bytes);

}  // namespace bv
