#include "lib/util/descriptor.h"

#include <unistd.h>

#include <system_error>
#include <utility>

namespace bv {

bool Descriptor::close() {
  const int fd = std::exchange(fd_, -1);
  return fd < 0 || ::close(fd) == 0 || errno == EINTR;
}

struct stat stat_for_reading(const Descriptor& fd, const std::string& file) {
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) throw_file_error(Exit::usage, file, "", errno);
  if (S_ISDIR(info.st_mode)) throw_file_error(Exit::usage, file, "", EISDIR);
  return info;
}

std::string file_error_text(int error) {
  if (error == ENOENT) return "no such file";
  if (error == EISDIR) return "is a folder";
  return std::generic_category().message(error);
}

void throw_file_error(Exit code, const std::string& path, std::string_view what, int error) {
  throw Error(code, path, fmt::format("{}{}", what, file_error_text(error)));
}

}  // namespace bv
