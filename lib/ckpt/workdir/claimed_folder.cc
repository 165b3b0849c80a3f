#include "lib/ckpt/workdir/claimed_folder.h"

#include <sys/stat.h>

#include <cerrno>

#include "lib/ckpt/workdir/workdir_lock.h"
#include "lib/util/error.h"

namespace bv {

void ClaimedFolder::remember() {
  if (open_) return;
  auto open = std::make_unique<const Descriptor>(dir_, O_PATH | O_DIRECTORY);
  struct stat info {};
  if (!*open || ::fstat(open->get(), &info) != 0) return;  // the first write says what is wrong
  device_ = info.st_dev;
  inode_ = info.st_ino;
  holder_ = WorkdirLock::holder(lock_);
  open_ = std::move(open);
}

bool ClaimedFolder::is_there() const {
  struct stat info {};
  // Other errors may be temporary faults of a disk or server: the write itself reports them.
  if (::stat(dir_.c_str(), &info) != 0) return errno != ENOENT && errno != ENOTDIR;
  if (info.st_dev == device_ && info.st_ino == inode_) return true;
  // Some network file systems give a file a new inode number after they have reconnected to their
  // server.
  return !holder_.empty() && WorkdirLock::holder(lock_) == holder_;
}

void ClaimedFolder::require_there() const {
  if (!open_ || is_there()) return;
  throw Error(Exit::storage, dir_, kWorkdirGone);
}

}  // namespace bv
