#include "lib/util/regular_file.h"

#include <unistd.h>

namespace bv {

// O_NONBLOCK: opening a pipe does not wait for its writer. It changes nothing for a regular file.
RegularFile::RegularFile(const std::string& file) : name_(file), fd_(file, O_RDONLY | O_NONBLOCK) {
  const struct stat info = stat_of(fd_, file);
  if (!S_ISREG(info.st_mode)) throw Error(Exit::usage, file, kind_text(info.st_mode));
  size_ = static_cast<size_t>(info.st_size);
}

size_t RegularFile::read(void* out, size_t bytes, size_t offset) const {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t n = retry_interrupted([&] {
      return ::pread(fd(), static_cast<char*>(out) + done, bytes - done,
                     static_cast<off_t>(offset + done));
    });
    if (n < 0) throw_file_error(Exit::usage, name_, "cannot read: ", errno);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

}  // namespace bv
