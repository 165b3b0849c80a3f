// Moving and deleting the folder of a checkpoint.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "lib/ckpt/workdir.h"
#include "lib/util/error.h"

namespace bv {

// Renames the folder `from` to `to`. If `to` exists already, the two are exchanged, so that there
// is a folder `to` at all times. File systems without that exchange give the old one the name
// `trash` in between. Returns where the old one is now, empty if there was none: the caller deletes
// it after it has synced the folder that holds `to`. Throws Error(Exit::storage); both are then as
// before.
std::string replace_folder(const std::string& from, const std::string& to,
                           const std::string& trash);

// Like replace_folder(), then syncs and deletes the old folder.
void move_folder(const std::string& from, const std::string& to, const std::string& trash);

// Deletes a folder with all that is in it. Logs a warning if it cannot.
void delete_folder(const std::string& path);

// Removes the committed checkpoint of a step. It is renamed first, so that a killed process leaves
// the whole checkpoint or none. Throws Error(Exit::storage).
void remove_checkpoint(const CkptFolder& ckpt, int64_t step);

// Returns what distinguishes the manifest of a folder from that of a folder that replaces it: its
// inode and modification time. All zero if there is none.
std::array<int64_t, 3> manifest_identity(const std::string& folder);

// Returns read(), which reads the checkpoint in `folder`. A run may replace ckpt/best meanwhile.
// Its files are then gone, or do not have the checksums of the old manifest, and read() is called
// again.
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
