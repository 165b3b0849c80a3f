#include "lib/ckpt/checkpoint_folder.h"

#include <fcntl.h>

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "lib/ckpt/crash_point.h"
#include "lib/ckpt/file_writer.h"
#include "lib/report/log.h"
#include "lib/util/file.h"

namespace bv {

namespace fs = std::filesystem;

void delete_folder(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) log::warn("[ckpt] {}: cannot delete: {}", path, error.message());
}

void move_folder(const std::string& from, const std::string& to, const std::string& trash) {
  if (!file_exists(to)) return rename_durably(from, to);
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    fsync_path(fs::path(to).parent_path().string());
    delete_folder(from);
    return;
  }
  rename_durably(to, trash);
  try {
    rename_durably(from, to);
  } catch (...) {
    ::rename(trash.c_str(), to.c_str());
    throw;
  }
  delete_folder(trash);
}

void remove_checkpoint(const CkptFolder& ckpt, int64_t step) {
  const std::string trash = ckpt.trash(step);
  if (file_exists(trash)) delete_folder(trash);  // of a killed process
  rename_durably(ckpt.step(step), trash);
  crash_point("ckpt.pruned");
  delete_folder(trash);
}

}  // namespace bv
