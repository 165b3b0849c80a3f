// Locks of a file that several processes have open. They belong to an open file, so that the
// kernel releases them when the process ends, however it ends.
#pragma once

#include <chrono>
#include <string>

namespace bv {

// An exclusive lock of one part of a file. It excludes only those who opened the file themselves,
// not threads that share its descriptor.
class FileLock {
 public:
  enum class Part { in_use, writing };
  // Waits up to `patience` for the lock. If it does not get the lock, held() is false and errno is
  // set.
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

// Marks the file as in use until `fd` is closed. Returns false and sets errno if that fails.
bool hold_in_use(int fd, std::chrono::milliseconds patience);
// Returns whether `path` is still the file that `fd` has open.
bool is_still(int fd, const std::string& path);
// Deletes `path`, which `fd` has open, unless another process has it in use.
void delete_if_unused(int fd, const std::string& path);
// Deletes this user's files "<folder>/<prefix>*" that no process has in use. Leaves everything that
// is not a regular file.
void delete_unused_files(const std::string& folder, const std::string& prefix);

}  // namespace bv
