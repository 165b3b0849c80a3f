// The lock is flock(2) on .lock: the kernel releases it however the process dies.
#include "lib/ckpt/workdir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <thread>

#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/host.h"
#include "lib/util/limits.h"
#include "lib/util/parse_count.h"
#include "lib/util/temporary_file.h"
#include "lib/util/text.h"

namespace bv {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-", kUnfinished = ".tmp", kTrashPrefix = ".trash-";
// write_file_atomically() writes LAST under a name that begins so.
constexpr std::string_view kTemporaryLast = "LAST.tmp";
constexpr int kLockTries = 100;

std::string reason(int error) { return std::generic_category().message(error); }

// The exit code if a workdir cannot be created or locked: is the path wrong, or the disk?
Exit code_of(int error) {
  const bool disk = error == ENOSPC || error == EDQUOT || error == EIO || error == EROFS;
  return disk ? Exit::storage : Exit::usage;
}

// Parses a decimal number that is spelt as std::to_string() spells it.
std::optional<int64_t> parse_step(std::string_view text) {
  const auto step = parse_count(text);
  return step && std::to_string(*step) == text ? step : std::nullopt;
}

// Returns "process 123 on host h", from the line that the holder of the lock wrote into it.
std::string holder(int fd) {
  std::array<char, limits::kNoteBytes> text{};
  const ssize_t bytes = ::pread(fd, text.data(), text.size(), 0);
  const std::string_view note(text.data(), bytes > 0 ? static_cast<size_t>(bytes) : 0);
  const auto parts = split(note.substr(0, note.find('\n')), ' ');
  if (parts.size() != 2 || !parse_step(parts[0])) return "another process";
  return fmt::format("process {} on host {}", parts[0], parts[1]);
}

// Whether `path` still names the open file: the --cleanup of another run may have removed it.
bool same_file(int fd, const std::string& path) {
  struct stat open_file {};
  struct stat named {};
  return ::fstat(fd, &open_file) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

// Returns the open and locked file; -1 if it was removed meanwhile.
int try_lock(const std::string& dir, const std::string& lock, double patience) {
  const int fd = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0 && errno == ENOENT) return -1;
  if (fd < 0) throw Error(code_of(errno), lock, "cannot open: " + reason(errno));
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience);
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (error == EWOULDBLOCK && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      continue;
    }
    const std::string by = holder(fd);
    ::close(fd);
    if (error != EWOULDBLOCK) throw Error(code_of(error), lock, "cannot lock: " + reason(error));
    throw Error(
        Exit::usage, dir,
        fmt::format("the workdir is in use by {}; wait for it or choose another --workdir", by));
  }
  if (same_file(fd, lock)) return fd;
  ::close(fd);
  return -1;
}

// Returns the paths of what is in a folder; nothing if it cannot be listed.
std::vector<std::string> list(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    paths.push_back(it->path().string());
  return paths;
}

// The end of the name of an unfinished checkpoint: ".tmp" or ".<id>.tmp".
std::string unfinished_suffix(const std::string& id) {
  return fmt::format("{}{}{}", id.empty() ? "" : ".", id, kUnfinished);
}

}  // namespace

std::string shard_name(int rank, int ranks) {
  return fmt::format("state-{:05}-of-{:05}.safetensors", rank, ranks);
}

std::string part_name(int rank) { return fmt::format("part-{}.json", rank); }

std::string failed_part_name(int rank) { return fmt::format("part-{}.failed", rank); }

std::string CkptFolder::step_name(int64_t step) { return fmt::format("{}{}", kStepPrefix, step); }

std::optional<int64_t> CkptFolder::step_of(std::string_view name) {
  return name.starts_with(kStepPrefix) ? parse_step(name.substr(kStepPrefix.size())) : std::nullopt;
}

CkptFolder CkptFolder::at(const std::string& path) {
  std::error_code error;
  CkptFolder inner = Workdir(path).ckpt();
  return fs::is_directory(inner.path(), error) ? inner : CkptFolder(path);
}

std::string CkptFolder::unfinished(int64_t step, const std::string& id) const {
  return this->step(step) + unfinished_suffix(id);
}

std::string CkptFolder::trash(int64_t step) const {
  return fmt::format("{}/{}{}", path_, kTrashPrefix, step_name(step));
}

void refuse_remote_path(const std::string& path) {
  for (const char* scheme : {"gs://", "s3://", "hdfs://", "http://", "https://"}) {
    if (!path.starts_with(scheme)) continue;
    throw Error(Exit::usage, path,
                "remote paths are not supported; mount the bucket (e.g. gcsfuse) or copy, and give "
                "a local path");
  }
}

void Workdir::check_writable() const {
  refuse_remote_path(dir_);
  if (dir_.empty()) throw Error(Exit::usage, "--workdir", "the path is empty");
  // The nearest existing parent decides whether the missing folders can be created.
  fs::path path = dir_;
  struct stat info {};
  while (::stat(path.c_str(), &info) != 0) {
    const int error = errno;
    const bool dangling = ::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
    if (dangling) {
      throw Error(
          Exit::usage, dir_,
          fmt::format("cannot be the workdir: {} is a broken symbolic link", path.string()));
    }
    if (error != ENOENT && error != ENOTDIR) {
      throw Error(code_of(error), dir_,
                  fmt::format("cannot be the workdir: {}: {}", path.string(), reason(error)));
    }
    const fs::path parent = path.has_relative_path() ? path.parent_path() : path.root_path();
    path = parent.empty() ? fs::path(".") : parent;
  }
  if (!S_ISDIR(info.st_mode)) {
    throw Error(Exit::usage, dir_,
                fmt::format("cannot be the workdir: {} is not a folder", path.string()));
  }
  // For root this passes whatever the permission bits are, but not on a read-only file system.
  if (::access(path.c_str(), R_OK | W_OK | X_OK) != 0) {
    const int error = errno;
    throw Error(code_of(error), dir_,
                fmt::format("cannot be the workdir: {} cannot be written: {}", path.string(),
                            reason(error)));
  }
}

void Workdir::claim(double patience) {
  check(lock_fd_ < 0, "{} is claimed twice", dir_);
  check_writable();
  // A second try is needed only if the --cleanup of another run removes .lock between open and
  // flock.
  for (int tries = 0; tries < kLockTries && lock_fd_ < 0; ++tries) {
    std::error_code error;
    fs::create_directories(dir_, error);
    if (error) {
      throw Error(code_of(error.value()), dir_, "cannot make the folder: " + error.message());
    }
    lock_fd_ = try_lock(dir_, lock(), patience);
  }
  if (lock_fd_ < 0) throw Error(Exit::usage, lock(), "cannot lock: it keeps disappearing");
  const std::string note = fmt::format("{} {}\n", ::getpid(), host_name());
  errno = ENOSPC;  // for a write that takes only a part
  if (::ftruncate(lock_fd_, 0) != 0 ||
      ::pwrite(lock_fd_, note.data(), note.size(), 0) != static_cast<ssize_t>(note.size())) {
    throw Error(Exit::storage, lock(), "cannot write: " + reason(errno));
  }
  for (const std::string& path : left_behind(/*ends=*/false)) ::unlink(path.c_str());
}

Workdir::~Workdir() {
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

std::vector<int64_t> CkptFolder::steps() const {
  std::vector<int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator it(path_, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code unreadable;
    const auto step = step_of(name);
    if (step && it->is_directory(unreadable)) steps.push_back(*step);
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw Error(Exit::usage, path_, "cannot list: " + error.message());
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::vector<std::string> CkptFolder::leftovers(const std::string& id) const {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator it(path_, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    // Other ranks of this start may have begun to write already.
    if (!id.empty() && name.ends_with(unfinished_suffix(id))) continue;
    const bool own = name.starts_with(kStepPrefix) || name.starts_with(kBestName);
    const bool unfinished = own && name.ends_with(kUnfinished);
    if (unfinished || name.starts_with(kTrashPrefix) || name.starts_with(kTemporaryLast)) {
      paths.push_back(it->path().string());
    }
  }
  return paths;
}

std::vector<std::string> CkptFolder::all_best() const {
  std::vector<std::string> folders;
  for (const std::string& path : list(path_)) {
    const std::string name = fs::path(path).filename().string();
    const bool series = name == kBestName || name.starts_with(std::string(kBestName) + "-");
    if (series && !name.ends_with(kUnfinished)) folders.push_back(path);
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::string checkpoint_path(const std::string& path) {
  const size_t colon = path.rfind(':');
  std::error_code none;
  if (file_exists(path) || colon == std::string::npos ||
      !fs::is_directory(path.substr(0, colon), none))
    return path;
  const std::string name = path.substr(colon + 1);
  if (name != kBestName && !name.starts_with(std::string(kBestName) + "-")) return path;
  const CkptFolder ckpt = CkptFolder::at(path.substr(0, colon));
  const std::string best = ckpt.path() + "/" + name;
  if (file_exists(best)) return best;
  std::string there;
  for (const std::string& each : ckpt.all_best())
    there += (there.empty() ? "; there is " : ", ") + fs::path(each).filename().string();
  throw Error(Exit::usage, best,
              fmt::format("no such checkpoint{}",
                          there.empty() ? " (a run keeps its best checkpoint with the key 'best')"
                                        : there));
}

std::optional<Workdir::Done> Workdir::finished() const {
  try {
    const std::string text = trim(read_file(done(), limits::kNoteBytes));
    const size_t end = std::min(text.find('\n'), text.size());
    const auto step = parse_step(std::string_view(text).substr(0, end));
    if (!step) return std::nullopt;
    return Done{*step, trim(text.substr(end))};
  } catch (const Error&) {
    return std::nullopt;
  }
}

void Workdir::write_done(int64_t step, const std::string& early) const {
  write_file_atomically(done(), fmt::format("{}\n{}{}", step, early, early.empty() ? "" : "\n"));
}

std::vector<std::string> Workdir::own_files() const {
  return {done(),    ckpt().path(),    config(),      run_json(),           result(),
          metrics(), skipped(),        tensorboard(), log_folder(),         trace_folder(),
          report(),  learning_curve(), evaluation(),  dir_ + "/post-mortem"};
}

std::vector<std::string> Workdir::kept_files() const {
  std::vector<std::string> paths;
  for (const std::string& path : list(dir_)) {
    const std::string name = fs::path(path).filename().string();
    const bool aside =
        name.starts_with(fs::path(metrics() + std::string(kAsideSuffix)).filename().string()) ||
        name.starts_with(fs::path(run_json() + std::string(kAsideSuffix)).filename().string());
    if (name.starts_with(kOldConfigPrefix) || aside) paths.push_back(path);
  }
  return paths;
}

std::vector<std::string> Workdir::left_behind(bool ends) const {
  const std::vector<std::string> own = own_files();
  std::vector<std::string> paths;
  for (const std::string& folder : {dir_, trace_folder()}) {
    for (const std::string& path : list(folder)) {
      const auto file = file_of_temporary(path);
      if (!file) continue;
      const TemporaryState state = temporary_state(path);
      const auto is_this = [&](const std::string& each) {
        return fs::path(each).filename() == fs::path(*file).filename();
      };
      const bool ended = ends && std::any_of(own.begin(), own.end(), is_this);
      if (state == TemporaryState::left_behind || (state == TemporaryState::unknown && ended))
        paths.push_back(path);
    }
  }
  return paths;
}

void Workdir::remove_end() const {
  bool removed = false;
  for (const std::string& file : {result(), done()}) {
    std::error_code error;
    removed |= fs::remove(file, error);
    if (error) throw Error(Exit::storage, file, "cannot remove: " + error.message());
  }
  if (removed) fsync_path(dir_);
}

std::vector<std::string> Workdir::remove() {
  check(lock_fd_ >= 0, "{} is removed without its lock", dir_);
  std::vector<std::string> own = left_behind(/*ends=*/true);
  for (const auto& more : {kept_files(), own_files()})
    own.insert(own.end(), more.begin(), more.end());
  own.push_back(lock());  // last: until then nobody else can claim the folder
  for (const std::string& path : own) {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) throw Error(Exit::storage, path, "cannot remove: " + error.message());
  }
  std::vector<std::string> others;
  std::error_code error;
  for (fs::directory_iterator it(dir_, error), end; !error && it != end; it.increment(error)) {
    others.push_back(it->path().filename().string());
  }
  std::sort(others.begin(), others.end());
  if (others.empty() && !error) fs::remove(dir_, error);
  if (error) throw Error(Exit::storage, dir_, "cannot remove: " + error.message());
  return others;
}

}  // namespace bv
