#include "lib/util/descriptor.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace bv {

bool Descriptor::close() {
  const int fd = std::exchange(fd_, -1);
  return fd < 0 || ::close(fd) == 0 || errno == EINTR;
}

struct stat stat_of(const Descriptor& fd, const std::string& file) {
  struct stat info {};
  if (fd && ::fstat(fd.get(), &info) == 0) return info;
  const int error = errno;
  // open() fails for a socket with "No such device or address", which would not explain it.
  const bool socket = error == ENXIO && ::stat(file.c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
  if (socket) throw Error(Exit::usage, file, kind_text(info.st_mode));
  throw_file_error(Exit::usage, file, "", error);
}

std::string kind_text(mode_t mode) {
  if (S_ISDIR(mode)) return file_error_text(EISDIR);
  const char* kind = S_ISFIFO(mode)                   ? "a pipe"
                     : S_ISSOCK(mode)                 ? "a socket"
                     : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
                                                      : "something else";
  return fmt::format("is {}, not a file", kind);
}

std::string file_error_text(int error) {
  if (error == ENOENT) return "no such file";
  if (error == EISDIR) return "is a folder";
  return std::generic_category().message(error);
}

void throw_file_error(Exit code, const std::string& path, std::string_view what, int error) {
  // The last two come from file servers.
  const bool disk_fails = error == EIO || error == ESTALE || error == ETIMEDOUT;
  if (code == Exit::usage && disk_fails) code = Exit::storage;
  const std::string why = fmt::format("{}{}", what, file_error_text(error));
  if (error == EMFILE)
    throw TooManyOpenFiles(
        code, path,
        why + ": raise this process's limit (ulimit -n, and -Hn for the hard limit; LimitNOFILE=)");
  if (error == ENFILE)
    throw TooManyOpenFiles(code, path, why + ": raise this host's limit (sysctl fs.file-max)");
  throw Error(code, path, why);
}

}  // namespace bv
