#include "lib/input/cache/file_lock.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <thread>

#include "lib/util/descriptor.h"

namespace bv {
namespace {

// `type` is F_RDLCK, F_WRLCK or F_UNLCK. Each part is one byte of the file; its value is ignored.
bool set_lock(int fd, FileLock::Part part, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = part == FileLock::Part::in_use ? 0 : 1;
  lock.l_len = 1;
  return retry_interrupted([&] { return ::fcntl(fd, F_OFD_SETLK, &lock); }) == 0;
}

// Polls, because a blocking call would wait forever for a stopped process.
bool wait_for_lock(int fd, FileLock::Part part, short type, std::chrono::milliseconds patience) {
  constexpr auto kPause = std::chrono::microseconds(50);
  const auto end = std::chrono::steady_clock::now() + patience;
  while (true) {
    if (set_lock(fd, part, type)) return true;
    const int error = errno;
    const bool taken = error == EAGAIN || error == EACCES;
    if (!taken || std::chrono::steady_clock::now() >= end) {
      errno = error;
      return false;
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

FileLock::FileLock(int fd, Part part, std::chrono::milliseconds patience)
    : fd_(fd), part_(part), held_(wait_for_lock(fd, part, F_WRLCK, patience)) {}

FileLock::~FileLock() {
  if (held_) set_lock(fd_, part_, F_UNLCK);
}

bool hold_in_use(int fd, std::chrono::milliseconds patience) {
  return wait_for_lock(fd, FileLock::Part::in_use, F_RDLCK, patience);
}

bool is_still(int fd, const std::string& path) {
  struct stat ours {
  }, theirs{};
  return ::fstat(fd, &ours) == 0 && ::lstat(path.c_str(), &theirs) == 0 &&
         ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

void delete_if_unused(int fd, const std::string& path) {
  // A process that opens the file now waits for our lock and then finds that it was deleted.
  if (set_lock(fd, FileLock::Part::in_use, F_WRLCK) && is_still(fd, path)) ::unlink(path.c_str());
}

void delete_unused_files(const std::string& folder, const std::string& prefix) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(prefix)) continue;
    const std::string path = entry->path().string();
    const Descriptor fd(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
    struct stat info {};
    if (fd && ::fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid())
      delete_if_unused(fd.get(), path);
  }
}

}  // namespace bv
