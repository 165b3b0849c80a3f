#include "lib/ckpt/checkpoint_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "lib/ckpt/file_writer.h"
#include "lib/report/log.h"
#include "lib/util/crash_point.h"
#include "lib/util/file.h"

namespace bv {

namespace fs = std::filesystem;

namespace {

// Returns `trash`, or a similar name that is free: a folder on NFS cannot be deleted while one of
// its files is open.
std::string free_name(const std::string& trash) {
  std::string name = trash;
  for (int n = 2; file_exists(name); ++n) {
    delete_folder(name);
    if (!file_exists(name)) break;
    name = trash + "-" + std::to_string(n);
  }
  return name;
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

std::string replace_folder(const std::string& from, const std::string& to,
                           const std::string& trash) {
  if (!file_exists(to)) {
    rename_file(from, to);
    return "";
  }
  if (exchange(from, to)) return from;
  const std::string old = free_name(trash);
  try {
    rename_durably(to, old);
    rename_file(from, to);
  } catch (...) {
    ::rename(old.c_str(), to.c_str());
    throw;
  }
  return old;
}

void move_folder(const std::string& from, const std::string& to, const std::string& trash) {
  const std::string old = replace_folder(from, to, trash);
  fsync_path(fs::path(to).parent_path().string());
  if (!old.empty()) delete_folder(old);
}

void remove_checkpoint(const CkptFolder& ckpt, int64_t step) {
  const std::string trash = ckpt.trash(step);
  if (file_exists(trash)) delete_folder(trash);  // left by a killed process
  rename_durably(ckpt.step(step), trash);
  crash_point("ckpt.pruned");
  delete_folder(trash);
}

}  // namespace bv
