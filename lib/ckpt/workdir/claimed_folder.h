// Whether a run's folder is still where the run has claimed it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>

#include "lib/util/descriptor.h"

namespace bv {

// What errors say after the name of a workdir that is no longer there.
inline constexpr const char* kWorkdirGone =
    "the workdir is gone: it was moved, deleted or unmounted during the run; put it back before "
    "you start the run again, which would otherwise begin at step 0";

// The folder of a workdir as the run has claimed it. A folder can be moved, deleted or unmounted
// while its run continues. If the run then created its path again, it would leave a new, empty
// workdir there, and the next start would silently begin at step 0.
class ClaimedFolder {
 public:
  // `lock`: the file in the folder that names the run (WorkdirLock).
  ClaimedFolder(std::string dir, std::string lock) : dir_(std::move(dir)), lock_(std::move(lock)) {}

  // Stores the identity of the folder that the path names now. Later calls do nothing. Make the
  // first call before other threads use this object.
  void remember();
  // Throws Error(Exit::storage) "D: error: the workdir is gone: ..." if the path names another
  // folder by now, or none. Does nothing before remember(). Any thread may call it.
  void require_there() const;

 private:
  bool is_there() const;

  std::string dir_, lock_;
  std::unique_ptr<const Descriptor> open_;  // keeps the kernel from reusing the inode's number
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::string holder_;
};

}  // namespace bv
