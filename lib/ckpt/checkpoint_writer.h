// Writing the folder of one checkpoint, before it is committed.
#pragma once

#include <cstdint>
#include <string>

#include "lib/ckpt/snapshot.h"
#include "lib/report/storage_retries.h"
#include "lib/util/error.h"

namespace bv {

// A rank could neither write its part of a checkpoint nor report that to rank 0.
struct UntoldFailure : Error {
  explicit UntoldFailure(const Error& failure) : Error(failure) {}
};

// Writes this rank's part of a checkpoint into `folder`, and creates the folder if it is missing.
// Each rank writes the file of its tensors. A rank above 0 then writes its part file. Rank 0 waits
// for the part files of all other ranks, then writes the manifest. Everything except the part files
// is synced. Failed writes are retried; Error(Exit::storage) is thrown if the retries fail too. A
// rank that gives up reports this to rank 0, which then also gives up, after all other ranks have
// written or given up. If the report fails, the rank throws UntoldFailure.
void write_checkpoint(const std::string& folder, const Snapshot& snapshot, bool keep,
                      const Writers& writers, StorageRetries& retries);

// Throws Error(Exit::storage) at `folder` if its file system has fewer than `bytes` left: "needs
// 1.5 GiB for the next checkpoint, but only 20 MiB are free".
void require_room(const std::string& folder, int64_t bytes);

}  // namespace bv
