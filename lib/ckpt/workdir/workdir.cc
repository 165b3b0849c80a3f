#include "lib/ckpt/workdir/workdir.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "lib/ckpt/checkpoint_folder.h"
#include "lib/ckpt/system_error.h"
#include "lib/report/log.h"
#include "lib/util/descriptor.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/limits.h"
#include "lib/util/parse_count.h"
#include "lib/util/temporary_file.h"
#include "lib/util/text.h"

namespace bv {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kShardPrefix = "state-", kStepPrefix = "step-", kUnfinished = ".tmp",
                           kTrashPrefix = ".trash-";
// write_file_atomically() first writes LAST under a name that begins like this.
constexpr std::string_view kTemporaryLast = "LAST.tmp";
constexpr int kLockTries = 100;

// Parses a decimal number in the format of std::to_string().
std::optional<int64_t> parse_step(std::string_view text) {
  const auto step = parse_count(text);
  return step && std::to_string(*step) == text ? step : std::nullopt;
}

// Returns the paths of a folder's entries; nothing if it cannot be listed.
std::vector<std::string> list(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    paths.push_back(it->path().string());
  return paths;
}

// Deletes the checkpoints of `ckpt`, a symbolic link to a folder on another disk. Other files in
// that folder stay.
void remove_behind_link(const CkptFolder& ckpt, std::error_code& error) {
  std::vector<std::string> own = {ckpt.last()};
  for (const auto& more : {ckpt.all_best(), ckpt.leftovers("")})
    own.insert(own.end(), more.begin(), more.end());
  for (const std::string& path : list(ckpt.path())) {
    if (CkptFolder::step_of(fs::path(path).filename().string())) own.push_back(path);
  }
  for (const std::string& path : own) {
    fs::remove_all(path, error);
    if (error) return;
  }
}

// The end of the name of an unfinished checkpoint: ".tmp" or ".<id>.tmp".
std::string unfinished_suffix(const std::string& id) {
  return fmt::format("{}{}{}", id.empty() ? "" : ".", id, kUnfinished);
}

}  // namespace

std::string shard_name(int rank, int ranks) {
  return fmt::format("{}{:05}-of-{:05}.safetensors", kShardPrefix, rank, ranks);
}

bool is_shard_name(std::string_view name) { return name.starts_with(kShardPrefix); }

bool holds_checkpoint(const std::string& folder) {
  if (!file_exists(folder + "/" + kManifestName)) return false;
  const std::vector<std::string> paths = list(folder);
  return std::any_of(paths.begin(), paths.end(), [](const std::string& path) {
    return is_shard_name(fs::path(path).filename().string());
  });
}

bool is_checkpoint_folder(const std::string& folder) {
  if (!file_exists(folder + "/" + kManifestName)) return false;
  if (holds_checkpoint(folder)) return true;
  const std::vector<std::string> paths = list(CkptFolder::at(folder).path());
  return std::none_of(paths.begin(), paths.end(), [](const std::string& path) {
    return CkptFolder::step_of(fs::path(path).filename().string()).has_value();
  });
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

std::string Workdir::check_path() const {
  refuse_remote_path(dir_);
  if (dir_.empty()) throw Error(Exit::usage, "--workdir", "the path is empty");
  fs::path path = dir_;
  struct stat info {};
  while (::stat(path.c_str(), &info) != 0) {
    const int error = errno;
    const bool link = ::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
    if (link || error == EACCES) return path.string();
    if (error != ENOENT && error != ENOTDIR) {
      throw Error(exit_for_path(error), dir_,
                  fmt::format("cannot be the workdir: {}: {}", path.string(), reason(error)));
    }
    const fs::path parent = path.has_relative_path() ? path.parent_path() : path.root_path();
    path = parent.empty() ? fs::path(".") : parent;
  }
  if (!S_ISDIR(info.st_mode)) {
    throw Error(Exit::usage, dir_,
                fmt::format("cannot be the workdir: {} is not a folder", path.string()));
  }
  return path.string();
}

void Workdir::check_writable() const {
  // The nearest existing parent decides whether the missing folders can be created.
  const std::string path = check_path();
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    const std::string why = errno == EACCES ? ": " + reason(errno) : " is a broken symbolic link";
    throw Error(Exit::usage, dir_, fmt::format("cannot be the workdir: {}{}", path, why));
  }
  // For root this succeeds whatever the permission bits are, but not on a read-only file system.
  if (::access(path.c_str(), R_OK | W_OK | X_OK) != 0) {
    const int error = errno;
    throw Error(
        exit_for_path(error), dir_,
        fmt::format("cannot be the workdir: {} cannot be written: {}", path, reason(error)));
  }
}

void Workdir::claim(double patience, std::string_view option) {
  check(!lock_, "{} is claimed twice", dir_);
  check_writable();
  // A second try is needed only if another run's --cleanup removes .lock meanwhile.
  for (int tries = 0; tries < kLockTries && !lock_; ++tries) {
    std::error_code error;
    fs::create_directories(dir_, error);
    if (error) {
      throw Error(exit_for_path(error.value()), dir_, "cannot make the folder: " + error.message());
    }
    if (auto taken = WorkdirLock::take(dir_, lock(), patience, option))
      lock_.emplace(std::move(*taken));
  }
  if (!lock_) throw Error(Exit::usage, lock(), "cannot lock: it keeps disappearing");
  remember();
  for (const std::string& path : left_behind(/*ends=*/false)) ::unlink(path.c_str());
  restore_replaced(ckpt());
}

void Workdir::restore_unless_taken() const {
  if (WorkdirLock::is_taken(lock())) return;
  try {
    restore_replaced(ckpt());
  } catch (const Error&) {
    // claim() tries again.
  }
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
    throw_file_error(Exit::usage, path_, "cannot list: ", error.value());
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
    if (unfinished || name.starts_with(kReplacedPrefix) || name.starts_with(kTrashPrefix) ||
        name.starts_with(kTemporaryLast)) {
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

bool names_best(const std::string& path) {
  const size_t colon = path.rfind(':');
  if (colon == std::string::npos || file_exists(path)) return false;
  const std::string name = path.substr(colon + 1);
  return name == kBestName || name.starts_with(std::string(kBestName) + "-");
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

std::string checkpoint_of_averages(const std::string& path) {
  constexpr std::string_view kAverages = ":ema";
  if (!path.ends_with(kAverages) || file_exists(path)) return "";
  std::string before = path.substr(0, path.size() - kAverages.size());
  return folder_exists(checkpoint_path(before)) ? before : "";
}

std::optional<Workdir::Done> Workdir::finished() const {
  try {
    const std::string text = trim(read_file(done(), limits::kNoteBytes));
    const size_t end = std::min(text.find('\n'), text.size());
    const auto step = parse_step(std::string_view(text).substr(0, end));
    if (!step) return std::nullopt;
    return Done{*step, trim(text.substr(end))};
  } catch (const Error& error) {
    if (error.code() == Exit::storage) throw;
    return std::nullopt;
  }
}

void Workdir::write_done(int64_t step, const std::string& early) const {
  write_file_atomically(done(), fmt::format("{}\n{}{}", step, early, early.empty() ? "" : "\n"));
}

std::vector<std::string> Workdir::folders() const {
  return {ckpt().path(), tensorboard(), log_folder(), trace_folder(), evaluation(), post_mortem()};
}

bool Workdir::is_folder_of_run(std::string_view name) {
  const std::vector<std::string> paths = Workdir("").folders();
  return std::any_of(paths.begin(), paths.end(), [&](const std::string& path) {
    return fs::path(path).filename().string() == name;
  });
}

std::vector<std::string> Workdir::own_files() const {
  std::vector<std::string> paths = folders();
  paths.insert(paths.end(), {done(), config(), run_json(), result(), metrics(), skipped(), report(),
                             learning_curve()});
  return paths;
}

std::vector<std::string> Workdir::files_put_aside() const {
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

bool Workdir::owns(const std::string& name) const {
  if (!file_exists(run_json()) && !file_exists(evaluated())) return false;
  std::vector<std::string> own = {evaluated(), failed(), lock()};
  for (const auto& more : {own_files(), files_put_aside()})
    own.insert(own.end(), more.begin(), more.end());
  return std::any_of(own.begin(), own.end(),
                     [&](const std::string& path) { return fs::path(path).filename() == name; });
}

std::vector<std::string> Workdir::left_behind(bool ends) const {
  const std::vector<std::string> own = own_files();
  std::vector<std::string> paths;
  for (const std::string& folder : {dir_, trace_folder(), tensorboard()}) {
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
  check(lock_.has_value(), "{} is removed without its lock", dir_);
  std::vector<std::string> own = left_behind(/*ends=*/true);
  for (const auto& more : {files_put_aside(), own_files()})
    own.insert(own.end(), more.begin(), more.end());
  // These go last, in this order. As long as rows and DONE are there, a start finds a finished run
  // and does not train again; as long as the lock is there, no other process can claim the folder.
  for (const std::string& path : {metrics(), done(), lock()}) {
    std::erase(own, path);
    own.push_back(path);
  }
  std::error_code error, none;
  for (const std::string& path : own) {
    if (path == lock()) lock_->stop_beat();
    const bool tells_the_end = path == metrics() || path == done();
    if (tells_the_end && file_exists(ckpt().path())) continue;  // a start would continue from it
    error.clear();
    // fs::remove_all() deletes a link and not the folder behind it.
    if (fs::is_symlink(path, none) && folder_exists(path)) {
      if (path == ckpt().path())
        remove_behind_link(ckpt(), error);
      else
        log::warn("{} is a link; what is in {} stays", path, fs::canonical(path, none).string());
    }
    if (!error) fs::remove_all(path, error);
    if (error) log::warn("{}: cannot remove: {}", path, error.message());
  }
  lock_.reset();  // on NFS, the deleted file keeps a name in the folder until it is closed
  std::vector<std::string> others;
  for (fs::directory_iterator it(dir_, error), end; !error && it != end; it.increment(error)) {
    others.push_back(it->path().filename().string());
  }
  std::sort(others.begin(), others.end());
  if (others.empty() && !error) fs::remove(dir_, error);
  if (error) log::warn("{}: cannot remove: {}", dir_, error.message());
  return others;
}

}  // namespace bv
