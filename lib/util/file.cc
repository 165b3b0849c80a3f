#include "lib/util/file.h"

#include <poll.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "lib/util/regular_file.h"
#include "lib/util/signals.h"
#include "lib/util/temporary_file.h"

namespace bv {
namespace {

std::string folder_of(const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  return folder.empty() ? "." : folder;
}

Error too_large(const std::string& file, size_t limit) {
  return {Exit::usage, file, fmt::format("larger than {} bytes", limit)};
}

// Removes a temporary file unless it was renamed into place.
struct Temporary {
  std::string name;
  bool kept = false;
  DeletedOnSignal guard{name};
  ~Temporary() {
    if (!kept) ::unlink(name.c_str());
  }
};

}  // namespace

bool file_exists(const std::string& file) {
  struct stat info {};
  return ::stat(file.c_str(), &info) == 0;
}

bool folder_exists(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool is_pipe(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode);
}

std::string read_file(const std::string& file, size_t limit) {
  const RegularFile opened(file);
  const size_t size = opened.size();
  if (limit > 0 && size > limit) throw too_large(file, limit);
  // The size is only a hint: it is 0 below /proc, and the file may grow while it is read.
  std::string content;
  size_t filled = 0;
  while (true) {
    content.resize(std::max(filled * 2, size + 1));
    const size_t n = opened.read(content.data() + filled, content.size() - filled, filled);
    filled += n;
    if (limit > 0 && filled > limit) throw too_large(file, limit);
    if (filled < content.size()) break;
  }
  content.resize(filled);
  return content;
}

std::optional<std::string> read_file_if_any(const std::string& file, size_t limit) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0 && errno == ENOENT) return std::nullopt;
  return read_file(file, limit);
}

std::string read_file_or_pipe(const std::string& file, size_t limit) {
  const Descriptor fd(file, O_RDONLY | O_NONBLOCK);
  if (S_ISFIFO(stat_of(fd, file).st_mode)) return read_stream(fd.get(), file, limit);
  return read_file(file, limit);
}

std::string read_stream(int fd, const std::string& name, size_t limit) {
  constexpr int kPollMs = 200;  // a signal may arrive just before poll() begins to wait
  std::string content;
  std::array<char, 1 << 16> buffer;
  while (true) {
    poll_signals();
    struct pollfd ready {
      fd, POLLIN, 0
    };
    const int events = ::poll(&ready, 1, kPollMs);
    if (events == 0 || (events < 0 && errno == EINTR)) continue;
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) throw_file_error(Exit::usage, name, "cannot read: ", errno);
    if (n == 0) return content;
    content.append(buffer.data(), static_cast<size_t>(n));
    if (limit > 0 && content.size() > limit) throw too_large(name, limit);
  }
}

void write_file_atomically(const std::string& file, std::string_view content, bool sync) {
  Temporary temporary{temporary_name(file)};
  Descriptor fd(temporary.name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (!fd) {
    const int error = errno;
    temporary.kept = true;  // nothing to remove
    throw Error(Exit::storage, file,
                fmt::format("cannot write: {}",
                            error == ENOENT ? "no such folder" : file_error_text(error)));
  }
  keep_permissions(fd.get(), file);
  if (const int error = write_all(fd.get(), content); error != 0) {
    throw_file_error(Exit::storage, file, "cannot write: ", error);
  }
  if (sync && retry_interrupted([&] { return ::fsync(fd.get()); }) != 0) {
    throw_file_error(Exit::storage, file, "cannot write: ", errno);
  }
  if (!fd.close()) throw_file_error(Exit::storage, file, "cannot write: ", errno);
  if (retry_interrupted([&] { return ::rename(temporary.name.c_str(), file.c_str()); }) != 0) {
    throw_file_error(Exit::storage, file, "cannot replace: ", errno);
  }
  temporary.kept = true;
  if (sync) fsync_path(folder_of(file));
}

void keep_permissions(int fd, const std::string& file) {
  constexpr mode_t kPermissions = 0777, kOfOwner = 0600;  // without set-user-ID and the like
  struct stat before {
  }, now{};
  if (::lstat(file.c_str(), &before) != 0 || !S_ISREG(before.st_mode)) return;
  if (::fstat(fd, &now) != 0 || before.st_uid != now.st_uid) return;
  mode_t mode = before.st_mode & kPermissions;
  if (before.st_gid != now.st_gid) mode &= now.st_mode;
  [[maybe_unused]] const int done = ::fchmod(fd, mode | kOfOwner);
}

void refuse_special_file(const std::string& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0 || S_ISREG(info.st_mode)) return;
  throw Error(Exit::storage, file, fmt::format("cannot write: {}", kind_text(info.st_mode)));
}

std::string link_target(const std::string& file) {
  constexpr int kMostLinks = 40;  // as in Linux; opening a ring of links fails
  std::filesystem::path path = file;
  std::error_code error;
  for (int i = 0; i < kMostLinks; ++i) {
    const std::filesystem::path next = std::filesystem::read_symlink(path, error);
    if (error) break;
    path = path.parent_path() / next;  // `next` alone, if it is absolute
  }
  return path.string();
}

std::string put_aside(const std::string& file, std::string_view content) {
  std::string name = file + std::string(kAsideSuffix);
  for (int i = 2; file_exists(name); ++i) name = fmt::format("{}{}-{}", file, kAsideSuffix, i);
  write_file_atomically(name, content);
  return name;
}

int write_all(int fd, std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t n = retry_interrupted([&] { return ::write(fd, bytes.data(), bytes.size()); });
    if (n < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

void open_standard_descriptors() {
  constexpr int kModes[] = {O_WRONLY, O_RDONLY, O_RDWR};
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", kModes[fd]);  // gets the lowest free number
  }
}

void fsync_path(const std::string& path) {
  const Descriptor fd(path, O_RDONLY);
  if (!fd) throw_file_error(Exit::storage, path, "cannot sync: ", errno);
  // Some file systems cannot sync a folder and return EINVAL; then nothing more can be done.
  if (retry_interrupted([&] { return ::fsync(fd.get()); }) != 0 && errno != EINVAL) {
    throw_file_error(Exit::storage, path, "cannot sync: ", errno);
  }
}

void make_folders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw_file_error(Exit::storage, path, "cannot make the folder: ", error.value());
}

std::string cache_home() {
  // The XDG specification requires ignoring relative values.
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

}  // namespace bv
