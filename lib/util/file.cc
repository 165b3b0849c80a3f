#include "lib/util/file.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "lib/util/descriptor.h"

namespace bv {
namespace {

std::string folder_of(const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  return folder.empty() ? "." : folder;
}

// Removes a temporary file unless it was renamed into place.
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
  const auto size = static_cast<size_t>(stat_for_reading(fd, file).st_size);
  const auto too_large = [&] {
    return Error(Exit::usage, file, fmt::format("larger than {} bytes", limit));
  };
  if (limit > 0 && size > limit) throw too_large();
  // The size is only a hint: it is 0 for pipes and /proc, and the file may grow while it is read.
  std::string content;
  size_t filled = 0;
  while (true) {
    content.resize(std::max(filled * 2, size + 1));
    if (content.size() - filled == 0) content.resize(filled + 4096);
    const ssize_t n = retry_interrupted(
        [&] { return ::read(fd.get(), content.data() + filled, content.size() - filled); });
    if (n < 0) throw_file_error(Exit::usage, file, "cannot read: ", errno);
    filled += static_cast<size_t>(n);
    if (limit > 0 && filled > limit) throw too_large();
    if (n == 0) break;
  }
  content.resize(filled);
  return content;
}

void write_file_atomically(const std::string& file, std::string_view content, bool sync) {
  static std::atomic<uint64_t> counter = 0;  // since two threads may write the same file
  Temporary temporary{fmt::format("{}.tmp{}-{}", file, ::getpid(), counter++)};
  Descriptor fd(temporary.name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (!fd) {
    const int error = errno;
    temporary.kept = true;  // nothing to remove
    throw Error(Exit::storage, file,
                fmt::format("cannot write: {}",
                            error == ENOENT ? "no such folder" : file_error_text(error)));
  }
  if (const int error = write_all(fd.get(), content); error != 0) {
    throw_file_error(Exit::storage, file, "cannot write: ", error);
  }
  if (sync && retry_interrupted([&] { return ::fsync(fd.get()); }) != 0) {
    throw_file_error(Exit::storage, file, "cannot write: ", errno);
  }
  if (!fd.close()) throw_file_error(Exit::storage, file, "cannot write: ", errno);
  if (::rename(temporary.name.c_str(), file.c_str()) != 0) {
    throw_file_error(Exit::storage, file, "cannot replace: ", errno);
  }
  temporary.kept = true;
  if (sync) fsync_path(folder_of(file));
}

int write_all(int fd, std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t n = retry_interrupted([&] { return ::write(fd, bytes.data(), bytes.size()); });
    if (n < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

void fsync_path(const std::string& path) {
  const Descriptor fd(path, O_RDONLY);
  if (!fd) throw_file_error(Exit::storage, path, "cannot sync: ", errno);
  // Some file systems cannot sync a folder and say EINVAL; nothing more can be done then.
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

}  // namespace bv
