// Locks of a file that several processes have open. They belong to an open file, so that the
// kernel releases them when the process ends, however it ends.
#pragma once

#include <chrono>
#include <string>

namespace bv {

// An exclusive lock of one part of a file. It excludes only those who have opened the file
// themselves, not other threads with the same descriptor.
class FileLock {
 public:
  enum class Part { in_use, writing };
  // Waits up to `patience` for the lock. held() is false, with errno set, if it did not get it.
  FileLock(int fd, Part part, std::chrono::milliseconds patience);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  bool held() const { return held_; }

 private:
  const int fd_;
  const Part part_;
  bool held_ = false;
};

// Marks the file as in use until `fd` is closed. False, with errno set, if that failed.
bool hold_in_use(int fd, std::chrono::milliseconds patience);
// Returns whether `path` still is the file that `fd` has open.
bool is_still(int fd, const std::string& path);
// Deletes `path`, which `fd` has open, unless another process has it in use.
void delete_if_unused(int fd, const std::string& path);
// Deletes those of the files "<folder>/<prefix>*" of this user that no process has in use. What is
// not a regular file stays.
void delete_unused_files(const std::string& folder, const std::string& prefix);

}  // namespace bv
