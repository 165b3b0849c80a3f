#include "lib/ckpt/checkpoint_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "lib/ckpt/file_writer.h"
#include "lib/ckpt/read_checkpoint.h"
#include "lib/report/log.h"
#include "lib/util/crash_point.h"
#include "lib/util/file.h"

namespace bv {

namespace fs = std::filesystem;

namespace {

// Separates a number from the name of a folder that was replaced. No checkpoint has it in its name.
constexpr char kNumbered = '~';

// Returns a free name to which `folder` can be moved while another folder takes its place. If an
// older folder has this name and cannot be deleted (on NFS, while one of its files is open), the
// returned name has a number at its end.
std::string replaced_name(const fs::path& folder) {
  const std::string old =
      (folder.parent_path() / kReplacedPrefix).string() + folder.filename().string();
  std::string name = old;
  for (int n = 2; file_exists(name); ++n) {
    delete_folder(name);
    if (!file_exists(name)) break;
    name = fmt::format("{}{}{}", old, kNumbered, n);
  }
  return name;
}

// Returns the path that the folder `replaced` had before; "" if it has no such name.
std::string path_before(const fs::path& replaced) {
  const std::string name = replaced.filename().string();
  if (!name.starts_with(kReplacedPrefix)) return "";
  const std::string before = name.substr(kReplacedPrefix.size());
  return (replaced.parent_path() / before.substr(0, before.find(kNumbered))).string();
}

// Exchanges two folders. Returns false where the file system cannot.
bool exchange(const std::string& a, const std::string& b) {
  if (is_missing("exchange")) return false;
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

}  // namespace

std::array<int64_t, 3> manifest_identity(const std::string& folder) {
  struct stat status = {};
  if (::stat((folder + "/" + kManifestName).c_str(), &status) != 0) return {};
  return {static_cast<int64_t>(status.st_ino), status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

void delete_folder(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) log::warn("[ckpt] {}: cannot delete: {}", path, error.message());
}

std::string replace_folder(const std::string& from, const std::string& to) {
  if (!file_exists(to)) {
    rename_file(from, to);
    return "";
  }
  if (exchange(from, to)) return from;
  const std::string old = replaced_name(to);
  try {
    rename_durably(to, old);
    crash_point("ckpt.moved_away");
    rename_file(from, to);
  } catch (...) {
    ::rename(old.c_str(), to.c_str());
    throw;
  }
  return old;
}

void move_folder(const std::string& from, const std::string& to) {
  const std::string old = replace_folder(from, to);
  fsync_path(fs::path(to).parent_path().string());
  if (!old.empty()) delete_folder(old);
}

void restore_replaced(const CkptFolder& ckpt, const std::optional<std::set<std::string>>& only) {
  for (const std::string& replaced : ckpt.leftovers("")) {
    const std::string before = path_before(replaced);
    if (before.empty() || (only && !only->contains(before)) || file_exists(before)) continue;
    try {
      verify_checkpoint(replaced);
    } catch (const Error& error) {
      if (error.code() == Exit::storage) throw Error(Exit::storage, replaced, error.message());
      continue;  // its deletion had begun
    }
    rename_durably(replaced, before);
    log::warn("[ckpt] {} is back: a process was killed while it replaced this checkpoint", before);
  }
}

void remove_checkpoint(const CkptFolder& ckpt, int64_t step) {
  const std::string trash = ckpt.trash(step);
  if (file_exists(trash)) delete_folder(trash);  // left by a killed process
  std::error_code none;
  if (const std::string link = ckpt.step(step); fs::is_symlink(link, none)) {
    log::warn("[ckpt] {} is a link and is removed alone; what is in {} stays", link,
              fs::canonical(link, none).string());
  }
  rename_durably(ckpt.step(step), trash);
  crash_point("ckpt.pruned");
  delete_folder(trash);
}

}  // namespace bv
