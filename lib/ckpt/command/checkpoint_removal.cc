#include "lib/ckpt/command/checkpoint_removal.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "lib/ckpt/checkpoint_folder.h"
#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/command/checkpoint_list.h"
#include "lib/util/error.h"
#include "lib/util/file.h"

namespace bv {
namespace {

namespace fs = std::filesystem;

// Returns the bytes of the folder's files that have no other hard link; 0 for a symbolic link,
// whose target stays.
uint64_t unshared_bytes(const std::string& folder) {
  uint64_t bytes = 0;
  std::error_code error;
  if (fs::is_symlink(folder, error)) return 0;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    struct stat info {};
    const bool found = ::lstat(it->path().c_str(), &info) == 0;
    if (found && S_ISREG(info.st_mode) && info.st_nlink == 1)
      bytes += static_cast<uint64_t>(info.st_size);
  }
  return bytes;
}

}  // namespace

std::vector<int64_t> removable_steps(const CkptFolder& ckpt, const std::vector<int64_t>& steps) {
  std::vector<int64_t> found = existing_steps(ckpt, steps);
  const std::optional<int64_t> newest = Checkpointer::latest_step(ckpt);
  if (newest && std::binary_search(found.begin(), found.end(), *newest)) {
    throw Error(
        Exit::usage, ckpt.step(*newest),
        "is the newest intact checkpoint, from which the run continues; nothing was removed");
  }
  return found;
}

std::vector<int64_t> all_but_newest(const CkptFolder& ckpt) {
  std::vector<int64_t> steps = ckpt.steps();
  const std::optional<int64_t> newest = Checkpointer::latest_step(ckpt);
  if (!newest) {
    throw Error(Exit::usage, ckpt.path(),
                steps.empty() ? "holds no checkpoint of a step"
                              : "no checkpoint here is intact; list those to remove with --steps");
  }
  std::erase(steps, *newest);
  return steps;
}

void require_unchanged(const CkptFolder& ckpt, const std::vector<int64_t>& before) {
  if (ckpt.steps() == before) return;
  throw Error(Exit::usage, ckpt.path(),
              "a run has changed the checkpoints meanwhile; nothing was removed; run the command "
              "again");
}

std::vector<RemovedCheckpoint> remove_checkpoints(const CkptFolder& ckpt,
                                                  const std::vector<int64_t>& steps, bool dry) {
  std::vector<RemovedCheckpoint> removed;
  for (const int64_t step : steps) {
    // Computed now, because removing one checkpoint may leave another with the only link to a file.
    removed.push_back({step, unshared_bytes(ckpt.step(step))});
    if (!dry) remove_checkpoint(ckpt, step);
  }
  const std::vector<int64_t> left = ckpt.steps();
  if (!dry && !steps.empty() && !left.empty() && steps.back() > left.back())
    write_file_atomically(ckpt.last(), CkptFolder::step_name(left.back()) + "\n");
  return removed;
}

}  // namespace bv
