#include "lib/report/append.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "lib/util/descriptor.h"
#include "lib/util/error.h"
#include "lib/util/file.h"

namespace bv {
namespace {

[[noreturn]] void fail(const std::string& file, int error) {
  throw Error(Exit::storage, file,
              fmt::format("cannot write: {}", std::generic_category().message(error)));
}

}  // namespace

int open_append(const std::string& file) {
  refuse_special_file(file);
  const bool is_new = !file_exists(file);
  const int fd = retry_interrupted(
      [&] { return ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666); });
  if (fd < 0) fail(file, errno);
  if (is_new) {
    const std::string folder = std::filesystem::path(file).parent_path().string();
    try {
      fsync_path(folder.empty() ? "." : folder);
    } catch (...) {
      ::close(fd);
      throw;
    }
  }
  return fd;
}

void append(int fd, const std::string& file, std::string_view bytes) {
  struct stat info {};
  if (::fstat(fd, &info) == 0 && info.st_nlink == 0) {
    throw Error(Exit::storage, file, "cannot write: the file was removed during the run");
  }
  if (const int error = write_all(fd, bytes); error != 0) fail(file, error);
}

}  // namespace bv
