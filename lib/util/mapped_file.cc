#include "lib/util/mapped_file.h"

#include <sys/mman.h>

#include "lib/util/descriptor.h"

namespace bv {

MappedFile::MappedFile(const std::string& file) {
  const Descriptor fd(file, O_RDONLY);
  const struct stat info = stat_for_reading(fd, file);
  if (!S_ISREG(info.st_mode)) throw Error(Exit::usage, file, "not a regular file");
  size_ = static_cast<size_t>(info.st_size);
  if (size_ == 0) return;  // mmap refuses a length of 0
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd.get(), 0);
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
