#include "lib/util/mapped_file.h"

#include <sys/mman.h>

#include "lib/util/regular_file.h"

namespace bv {

MappedFile::MappedFile(const std::string& file) {
  const RegularFile opened(file);
  size_ = opened.size();
  if (size_ == 0) return;  // mmap refuses a length of 0
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, opened.fd(), 0);
  if (data == MAP_FAILED) {
    size_ = 0;
    throw_file_error(Exit::usage, file, "cannot map: ", errno);
  }
  data_ = static_cast<const uint8_t*>(data);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<uint8_t*>(data_), size_);
}

}  // namespace bv
