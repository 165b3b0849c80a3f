// A regular file that is open for reading. Every file that a user names is opened here, except a
// config, which may be a pipe (lib/util/file.h).
//
// A pipe, a socket or a device in place of a file is an error: opening a pipe would wait for a
// writer, and reading a device may never end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/util/descriptor.h"

namespace bv {

class RegularFile {
 public:
  // Never waits. Throws Error(Exit::usage) "<file>: error: no such file", "is a folder" or "is a
  // pipe, not a file".
  explicit RegularFile(const std::string& file);

  int fd() const { return fd_.get(); }
  // In bytes. 0 for some files below /proc that do have content.
  size_t size() const { return size_; }
  // Reads from `offset` until `bytes` bytes are read or the file ends, and returns how many were
  // read. Throws Error "<file>: error: cannot read: ...": Exit::storage if the disk fails,
  // otherwise Exit::usage.
  size_t read(void* out, size_t bytes, size_t offset) const;

 private:
  std::string name_;
  Descriptor fd_;
  size_t size_ = 0;
};

}  // namespace bv
