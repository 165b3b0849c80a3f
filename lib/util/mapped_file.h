// A read-only memory mapping of a file.
//
// The kernel reads the file when the memory is read. If it cannot, because the file was truncated
// meanwhile or the disk failed, it sends SIGBUS. The process then ends with Exit::data and one line
// that names the file and the offset: no code can continue without the bytes that it is about to
// read. The line is missing if more files are mapped at once than the handler has slots for.
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
  const std::string name_;  // of the file, as messages show it
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  size_t slot_ = SIZE_MAX;  // where the handler of SIGBUS finds this mapping; SIZE_MAX: nowhere
};

}  // namespace bv
