// Moving and deleting the folder of a checkpoint.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "lib/ckpt/workdir/workdir.h"
#include "lib/util/error.h"

namespace bv {

// Renames the folder `from` to `to`. If `to` exists, swaps the two atomically, so that `to` exists
// at all times. On a file system that cannot swap, first renames the old folder to
// ".old-<its name>", from where restore_replaced() brings it back if the process is killed then.
// Returns the path of the old folder, "" if there was none; the caller deletes it after syncing the
// parent of `to`. Throws Error(Exit::storage), and then leaves both folders as they were.
std::string replace_folder(const std::string& from, const std::string& to);

// Like replace_folder(), then syncs and deletes the old folder.
void move_folder(const std::string& from, const std::string& to);

// Renames back the checkpoints in `ckpt` that a process was replacing when it was killed, if they
// are whole and nothing has taken their place. `only`: the paths of the checkpoints to rename back;
// nullopt: all. Another process may be replacing a checkpoint right now: its old folder is then
// taken back, and the rename of that process fails and is retried. Throws Error(Exit::storage).
void restore_replaced(const CkptFolder& ckpt,
                      const std::optional<std::set<std::string>>& only = std::nullopt);

// Deletes a folder and its content. Logs a warning if it cannot.
void delete_folder(const std::string& path);

// Removes the committed checkpoint of a step. It is renamed first, so that a killed process leaves
// the whole checkpoint or none. If it is a symbolic link, removes the link alone and logs a
// warning. Throws Error(Exit::storage).
void remove_checkpoint(const CkptFolder& ckpt, int64_t step);

// Returns the identity of a folder's manifest: its inode and modification time. A folder that
// replaces it has another one. All zeros if there is no manifest.
std::array<int64_t, 3> manifest_identity(const std::string& folder);

// Calls read(), which reads the checkpoint in `folder`, and returns its result. If a run replaces
// ckpt/best during the read, files are missing or fail the checksums of the old manifest; read() is
// then called again.
template <class Read>
auto read_whole(const std::string& folder, const Read& read) {
  constexpr int kMostReplacements = 10;
  for (int attempt = 1;; ++attempt) {
    const auto before = manifest_identity(folder);
    try {
      return read();
    } catch (const Error&) {
      if (manifest_identity(folder) == before || attempt == kMostReplacements) throw;
    }
  }
}

}  // namespace bv
