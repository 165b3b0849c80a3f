#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/util/regular_file.h"

namespace bv {

// Reads small parts of a large file from front to back, as an index needs them: the heads of
// records, but not what lies between. Parts that are close together are read in one call. Used by
// one thread.
class FileWindow {
 public:
  static constexpr size_t kLargest = size_t{1} << 18;  // bytes of one part

  // Throws Error(Exit::usage) if the file cannot be opened.
  explicit FileWindow(const std::string& file) : file_(file) {}

  uint64_t file_size() const { return file_.size(); }
  // Returns bytes [offset, offset + size), or fewer at the end of the file; size <= kLargest. Valid
  // until the next call. Throws Error(Exit::usage) if the file cannot be read.
  std::span<const uint8_t> at(uint64_t offset, size_t size);

 private:
  RegularFile file_;
  std::vector<uint8_t> window_;  // bytes [begin_, begin_ + window_.size()) of the file
  uint64_t begin_ = 0;
  size_t next_size_ = 4096;  // of the window
};

}  // namespace bv
