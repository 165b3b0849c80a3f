#include "lib/predict/evaluation_folders.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/workdir/workdir.h"
#include "lib/config/load_config.h"
#include "lib/input/check/data_sections.h"
#include "lib/input/image/image_suffix.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/folder_entries.h"
#include "lib/util/json_kind.h"

namespace bv {
namespace {

namespace fs = std::filesystem;

bool any_exists(const std::vector<std::string>& paths) {
  return std::any_of(paths.begin(), paths.end(), may_exist);
}

bool is_empty_folder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error) && std::filesystem::is_empty(path, error);
}

// Returns whether there is such a folder and it may hold data: an image, or a folder that is
// neither hidden nor at one of the `known` paths.
bool may_hold_data(const std::string& path, const std::vector<std::string>& known) {
  if (!folder_exists(path)) return false;
  bool found = false;
  for_each_entry(path, [&](const FolderEntry& entry) {
    const bool is_known = entry.name.starts_with('.') || entry.name == "lost+found" ||
                          std::ranges::find(known, path + "/" + entry.name) != known.end();
    found |= entry.folder ? !is_known : has_image_suffix(entry.name);
  });
  return found;
}

// Returns the path without links, and without a slash at its end.
fs::path resolved(const std::string& path) {
  std::error_code none;
  const fs::path whole = fs::weakly_canonical(fs::absolute(path, none), none);
  return whole.has_filename() ? whole : whole.parent_path();
}

// Throws if the folder `output` is in that of a run, which may delete or overwrite the rows, or in
// that of a checkpoint. `workdir`/eval is accepted.
void check_outside_runs(const std::string& output, const std::string& workdir) {
  const fs::path whole = resolved(output);
  if (whole == resolved(Workdir(workdir).evaluation())) return;
  const auto refuse = [&](const fs::path& folder, const char* whose) {
    throw Error(Exit::usage, "--output " + output,
                fmt::format("is in '{}', the folder of a {}; choose a folder outside of it",
                            folder.string(), whose));
  };
  for (fs::path at = whole; at.has_relative_path(); at = at.parent_path()) {
    if (holds_checkpoint(at.string())) refuse(at, "checkpoint");
    const fs::path around = at.parent_path();
    if (file_exists(Workdir(around.string()).run_json())) refuse(around, "run");
  }
}

}  // namespace

bool may_exist(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error) || error;
}

void check_is_run(const std::string& workdir, bool follow) {
  if (!file_exists(workdir)) return;
  const Workdir run(workdir);
  if (any_exists({run.run_json(), run.ckpt().path(), run.result()})) return;
  const bool empty = is_empty_folder(workdir);
  const auto may_begin = [&] {
    if (!folder_exists(workdir) || any_exists({run.evaluated()})) return false;
    // scripts/cron.sh makes .cron.lock before it starts the run.
    if (any_exists({run.config(), run.lock(), run.failed(), run.cron_lock()})) return true;
    // An earlier --follow has made eval/, and a launcher may have opened a log file.
    return !may_hold_data(workdir, run.folders()) &&
           !may_hold_data(run.evaluation(), {Workdir(run.evaluation()).tensorboard()});
  };
  if (follow && may_begin()) return;
  throw Error(Exit::usage, workdir,
              std::string("is not the workdir of a run: it has no run.json and no ckpt/") +
                  (empty ? "; --follow waits for a run that starts later" : ""));
}

void check_rows_folder(const std::string& output, const std::string& workdir) {
  check_outside_runs(output, workdir);
  const std::string place = "--output " + output;
  const Workdir rows(output);
  // A log file is allowed: in `bvtrain eval --output R > R/log`, the shell creates it first.
  const auto has_other_files = [&] {
    return any_exists({rows.report(), rows.learning_curve()}) ||
           may_hold_data(output, {rows.tensorboard()});
  };
  if (!any_exists({rows.evaluated(), rows.metrics(), rows.lock()}) && has_other_files()) {
    throw Error(Exit::usage, place,
                "has images, folders or a report that bvtrain eval did not write; choose a new or "
                "empty folder");
  }
  const Workdir run(workdir);
  if (const auto newest = Checkpointer::peek(workdir))
    check_rows_outside_data(output, parse_config_json(run_config(*newest), newest->folder));
  else if (file_exists(run.config()))
    check_rows_outside_data(output, load_config(run.config(), {}));
}

void check_holds_no_run(const std::string& output) {
  const Workdir rows(output);
  const auto refuse = [&](const std::string& what) {
    throw Error(Exit::usage, rows.dir(), what + "; choose another folder with --output");
  };
  for (const std::string& path : {rows.run_json(), rows.ckpt().path()}) {
    if (file_exists(path)) refuse(fmt::format("is the folder of a run: {} exists", path));
  }
  const auto before = read_file_if_any(rows.config());
  if (before && !shallow_json(*before).is_object())
    refuse("has a config.yaml that bvtrain eval did not write");
}

void check_rows_outside_data(const std::string& output, const Config& config) {
  check_outside_data(config, output, "--output " + output, "a folder");
}

}  // namespace bv
