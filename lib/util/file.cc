// Files: reading with limits, atomic replacement, mapping (POSIX).
#include "lib/util/file.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "lib/util/error.h"

namespace bv {
namespace {

// Calls a system function again while a signal interrupts it.
template <class Call>
auto retry(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags, mode_t mode = 0)
      : fd_(retry([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); })) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  explicit operator bool() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // Network file systems report a failed write only here.
  bool close() {
    const int fd = std::exchange(fd_, -1);
    return fd < 0 || ::close(fd) == 0 || errno == EINTR;
  }

 private:
  int fd_;
};

std::string reason(int error) {
  if (error == ENOENT) return "no such file";
  if (error == EISDIR) return "is a folder";
  return std::generic_category().message(error);
}

[[noreturn]] void fail(Exit code, const std::string& path, std::string_view what, int error) {
  throw Error(code, path, fmt::format("{}{}", what, reason(error)));
}

// Opens a file for reading; `size` is 0 for what has no size of its own (a pipe).
struct stat open_checked(const std::string& file, const Descriptor& fd) {
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) fail(Exit::usage, file, "", errno);
  if (S_ISDIR(info.st_mode)) fail(Exit::usage, file, "", EISDIR);
  return info;
}

std::string folder_of(const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  return folder.empty() ? "." : folder;
}

void write_all(int fd, std::string_view content, const std::string& file) {
  while (!content.empty()) {
    const ssize_t n = retry([&] { return ::write(fd, content.data(), content.size()); });
    if (n < 0) fail(Exit::storage, file, "cannot write: ", errno);
    content.remove_prefix(static_cast<size_t>(n));
  }
}

// Unlinks a temporary file unless it was renamed into place.
struct Temporary {
  std::string name;
  bool kept = false;
  ~Temporary() {
    if (!kept) ::unlink(name.c_str());
  }
};

}  // namespace

bool file_exists(const std::string& file) {
  struct stat info {};
  return ::stat(file.c_str(), &info) == 0;
}

std::string read_file(const std::string& file, size_t limit) {
  const Descriptor fd(file, O_RDONLY);
  const auto size = static_cast<size_t>(open_checked(file, fd).st_size);
  const auto too_large = [&] {
    return Error(Exit::usage, file, fmt::format("larger than {} bytes", limit));
  };
  if (limit > 0 && size > limit) throw too_large();
  // Not trusting the size: it is 0 for pipes and /proc, and the file may grow meanwhile.
  std::string content;
  size_t filled = 0;
  while (true) {
    content.resize(std::max(filled * 2, size + 1));
    if (content.size() - filled == 0) content.resize(filled + 4096);
    const ssize_t n =
        retry([&] { return ::read(fd.get(), content.data() + filled, content.size() - filled); });
    if (n < 0) fail(Exit::usage, file, "cannot read: ", errno);
    filled += static_cast<size_t>(n);
    if (limit > 0 && filled > limit) throw too_large();
    if (n == 0) break;
  }
  content.resize(filled);
  return content;
}

void write_file_atomically(const std::string& file, std::string_view content, bool sync) {
  static std::atomic<uint64_t> counter = 0;  // two threads may write the same file
  Temporary temporary{fmt::format("{}.tmp{}-{}", file, ::getpid(), counter++)};
  Descriptor fd(temporary.name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (!fd) {
    const int error = errno;
    temporary.kept = true;  // nothing to remove
    throw Error(
        Exit::storage, file,
        fmt::format("cannot write: {}", error == ENOENT ? "no such folder" : reason(error)));
  }
  write_all(fd.get(), content, file);
  if (sync && retry([&] { return ::fsync(fd.get()); }) != 0) {
    fail(Exit::storage, file, "cannot write: ", errno);
  }
  if (!fd.close()) fail(Exit::storage, file, "cannot write: ", errno);
  if (::rename(temporary.name.c_str(), file.c_str()) != 0) {
    fail(Exit::storage, file, "cannot replace: ", errno);
  }
  temporary.kept = true;
  if (sync) fsync_path(folder_of(file));
}

void fsync_path(const std::string& path) {
  const Descriptor fd(path, O_RDONLY);
  if (!fd) fail(Exit::storage, path, "cannot sync: ", errno);
  // Some file systems know no fsync of a folder and say EINVAL; there is nothing more to do there.
  if (retry([&] { return ::fsync(fd.get()); }) != 0 && errno != EINVAL) {
    fail(Exit::storage, path, "cannot sync: ", errno);
  }
}

void make_folders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail(Exit::storage, path, "cannot make the folder: ", error.value());
}

std::string cache_home() {
  // The XDG specification says to ignore relative values.
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && xdg[0] == '/') {
    return std::string(xdg) + "/bvtrain";
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || home[0] != '/') {
    const struct passwd* user = ::getpwuid(::getuid());
    home = user == nullptr ? nullptr : user->pw_dir;
  }
  if (home == nullptr) {
    throw Error(Exit::usage, "", "no folder for the cache: set HOME or XDG_CACHE_HOME");
  }
  return std::string(home) + "/.cache/bvtrain";
}

MappedFile::MappedFile(const std::string& file) {
  const Descriptor fd(file, O_RDONLY);
  const struct stat info = open_checked(file, fd);
  if (!S_ISREG(info.st_mode)) throw Error(Exit::usage, file, "not a regular file");
  size_ = static_cast<size_t>(info.st_size);
  if (size_ == 0) return;  // mmap refuses length 0
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) {
    size_ = 0;
    fail(Exit::usage, file, "cannot map: ", errno);
  }
  data_ = static_cast<const uint8_t*>(data);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<uint8_t*>(data_), size_);
}

}  // namespace bv
