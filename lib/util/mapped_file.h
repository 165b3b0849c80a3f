// A read-only memory mapping of a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace bv {

class MappedFile {
 public:
  // Throws Error(Exit::usage) like RegularFile.
  explicit MappedFile(const std::string& file);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  // The content; valid as long as this object. Empty for an empty file.
  std::span<const uint8_t> bytes() const { return {data_, size_}; }

 private:
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace bv
