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

void refuse_removed_file(int fd, const std::string& file) {
  struct stat info {};
  if (::fstat(fd, &info) == 0 && info.st_nlink == 0) {
    throw Error(Exit::storage, file, "cannot write: the file was removed during the run");
  }
}

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
      ::unlink(file.c_str());  // so that the next try recreates it and syncs the folder
      throw;
    }
  }
  return fd;
}

}  // namespace

AppendFile::AppendFile(std::string file) : file_(std::move(file)), fd_(open_append(file_)) {}

AppendFile::~AppendFile() { ::close(fd_); }

void AppendFile::reopen() {
  const int fd = open_append(file_);
  ::close(fd_);
  fd_ = fd;
}

void AppendFile::flush() {
  if (waiting_.empty()) return;
  refuse_removed_file(fd_, file_);
  while (!waiting_.empty()) {
    const ssize_t n =
        retry_interrupted([&] { return ::write(fd_, waiting_.data(), waiting_.size()); });
    if (n < 0) fail(file_, errno);
    waiting_.erase(0, static_cast<size_t>(n));
  }
}

}  // namespace bv
