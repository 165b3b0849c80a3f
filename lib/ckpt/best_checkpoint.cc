#include "lib/ckpt/best_checkpoint.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "lib/ckpt/checkpoint_folder.h"
#include "lib/ckpt/file_writer.h"
#include "lib/ckpt/manifest.h"
#include "lib/util/crash_point.h"
#include "lib/util/error.h"
#include "lib/util/file.h"

namespace bv {
namespace {

namespace fs = std::filesystem;

// Links `to` to `from`, or copies it where hard links are not possible: on FAT, on some network
// file systems, between two mounts.
void link_or_copy(const std::string& from, const std::string& to) {
  if (!is_missing("link") && ::link(from.c_str(), to.c_str()) == 0) return;
  std::error_code error;
  fs::copy_file(from, to, error);
  if (error) throw Error(Exit::storage, to, "cannot write: " + error.message());
  fsync_path(to);
}

std::string aside_name(const std::string& best, int64_t step) {
  const fs::path path(best);
  return fmt::format("{}/old-{}-step-{}", path.parent_path().string(), path.filename().string(),
                     step);
}

}  // namespace

void write_best(const std::string& best, const std::string& checkpoint, const BestPoint& point) {
  const std::string temporary = best + ".tmp";
  delete_folder(temporary);  // left by a killed process
  make_folders(temporary);
  try {
    Manifest manifest = read_manifest(checkpoint);
    for (const Manifest::File& file : manifest.files)
      link_or_copy(checkpoint + "/" + file.name, temporary + "/" + file.name);
    manifest.meta["best"] = {{"metric", point.metric},
                             {"higher_is_better", point.higher_is_better},
                             {"step", point.step},
                             {"value", point.value}};
    FileWriter text(temporary + "/" + kManifestName);
    text.write(manifest.text());
    text.finish();
    fsync_path(temporary);
    crash_point("ckpt.best_written");
    move_folder(temporary, best);
  } catch (const Error& error) {
    delete_folder(temporary);
    throw error.code() == Exit::storage ? error : Error(Exit::storage, checkpoint, error.what());
  }
}

void hold_checkpoint(const std::string& to, const std::string& checkpoint) {
  delete_folder(to);
  make_folders(to);
  try {
    for (const Manifest::File& file : read_manifest(checkpoint).files)
      link_or_copy(checkpoint + "/" + file.name, to + "/" + file.name);
    link_or_copy(checkpoint + "/" + kManifestName, to + "/" + kManifestName);
  } catch (const Error& error) {
    delete_folder(to);
    throw error.needs_place() ? Error(error.code(), checkpoint, error.message()) : error;
  }
}

std::string put_best_aside(const std::string& best, int64_t step) {
  const std::string aside = aside_name(best, step);
  move_folder(best, aside);
  return aside;
}

bool take_best_back(const std::string& best, const BestPoint& point) {
  const std::string aside = aside_name(best, point.step);
  if (file_exists(best) || read_best(aside) != point) return false;
  rename_durably(aside, best);
  return true;
}

std::optional<BestPoint> read_best(const std::string& best) {
  try {
    const nlohmann::json meta = read_manifest(best).meta;  // check_meta() has checked the types
    if (!meta.contains("best")) return std::nullopt;
    const nlohmann::json& found = meta.at("best");
    return BestPoint{found.at("metric"), found.at("higher_is_better"), found.at("step"),
                     found.at("value")};
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace bv
