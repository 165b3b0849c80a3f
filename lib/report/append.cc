#include "lib/report/append.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "lib/util/error.h"

namespace bv {
namespace {

[[noreturn]] void fail(const std::string& file, int error) {
  throw Error(Exit::storage, file,
              fmt::format("cannot write: {}", std::generic_category().message(error)));
}

}  // namespace

int open_append(const std::string& file) {
  int fd = -1;
  do {
    fd = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) fail(file, errno);
  return fd;
}

void append(int fd, const std::string& file, std::string_view bytes) {
  struct stat info {};
  if (::fstat(fd, &info) == 0 && info.st_nlink == 0) {
    throw Error(Exit::storage, file, "cannot write: the file was removed during the run");
  }
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(file, errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace bv
