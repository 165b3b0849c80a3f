// A readable list of a run's checkpoints: their sizes, metric values, why they are kept and what is
// wrong with them.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "lib/ckpt/workdir/workdir.h"

namespace bv {

struct ListedCheckpoint {
  std::string name, folder;     // "step-12" or "best-loss"; the path
  std::optional<int64_t> step;  // nullopt for a best checkpoint whose manifest cannot be read
  uint64_t bytes = 0;           // of all its files
  std::time_t saved = 0;        // when its manifest was written; 0 if it has none
  std::optional<double> value;  // CheckpointList::metric in the row of its step
  // Why it is kept: "newest", "recent", "keep_ckpt", "best val/loss 0.12".
  std::vector<std::string> why;
  std::string fault;  // what is wrong with its manifest or the size of a file; empty if nothing is
};

struct CheckpointList {
  std::string metric;  // the main metric of the run; empty if it has measured none
  std::vector<ListedCheckpoint> checkpoints;  // by ascending step, then the best ones by name
};

// Returns the folders of checkpoints that `path` names. If it is a workdir or a ckpt/ folder, these
// are all of its checkpoints, sorted like CheckpointList::checkpoints. Otherwise it is the one that
// checkpoint_path() finds. Throws Error(Exit::usage) if there is none.
std::vector<std::string> checkpoint_folders(const std::string& path);

// Describes the checkpoints of checkpoint_folders(). Checksums of tensors are not verified.
CheckpointList list_checkpoints(const std::string& path);

// What checkpoint_fault() compares with the manifest.
enum class FaultSearch { sizes, checksums };

// Returns what is wrong with the checkpoint in `folder`; empty if nothing is.
std::string checkpoint_fault(const std::string& folder, FaultSearch search);

// Returns the bytes of all files of a folder.
uint64_t folder_bytes(const std::string& folder);

// Returns `steps` in ascending order, without duplicates. Throws Error(Exit::usage) if there is no
// committed checkpoint of one of them.
std::vector<int64_t> existing_steps(const CkptFolder& ckpt, std::vector<int64_t> steps);

// Returns the last `count` steps that have a committed checkpoint, ascending. Throws
// Error(Exit::usage) if there are fewer.
std::vector<int64_t> last_steps(const CkptFolder& ckpt, int64_t count);

}  // namespace bv
