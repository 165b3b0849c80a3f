#include "lib/ckpt/command/checkpoint_list.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>

#include "lib/ckpt/best_checkpoint.h"
#include "lib/ckpt/checkpoint_folder.h"
#include "lib/ckpt/manifest.h"
#include "lib/report/metric_file.h"
#include "lib/report/metric_summary.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/text.h"

namespace bv {
namespace {

namespace fs = std::filesystem;

std::string name_of(const std::string& folder) {
  const std::string name = fs::path(folder).filename().string();
  std::error_code error;
  return name == "." || name == ".." ? fs::canonical(folder, error).filename().string() : name;
}

std::time_t time_of(const std::string& file) {
  struct stat info {};
  return ::stat(file.c_str(), &info) == 0 ? info.st_mtime : 0;
}

// Sets the fields that the manifest holds: the step, and why the run keeps the checkpoint.
void read_manifest_of(ListedCheckpoint& listed) {
  try {
    const Manifest manifest = read_manifest(listed.folder);
    if (!listed.step) listed.step = manifest.step;
    if (manifest.keep && CkptFolder::step_of(listed.name)) listed.why.emplace_back("keep_ckpt");
    if (const auto best = read_best(listed.folder))
      listed.why.push_back(fmt::format("best {} {}", best->metric, short_number(best->value)));
  } catch (const Error&) {
    // checkpoint_fault() reports what is wrong.
  }
}

ListedCheckpoint listed_checkpoint(const std::string& folder) {
  ListedCheckpoint listed;
  listed.name = name_of(folder);
  listed.folder = folder;
  listed.step = CkptFolder::step_of(listed.name);
  listed.bytes = folder_bytes(folder);
  listed.saved = time_of(folder + "/" + kManifestName);
  listed.fault = checkpoint_fault(folder, FaultSearch::sizes);
  read_manifest_of(listed);
  return listed;
}

// A run continues from the newest checkpoint without a fault. It deletes others when they are no
// longer among the newest, unless they are marked to be kept.
void mark_newest(std::vector<ListedCheckpoint>& checkpoints) {
  bool newest = true;
  for (auto it = checkpoints.rbegin(); it != checkpoints.rend(); ++it) {
    if (!CkptFolder::step_of(it->name) || !it->fault.empty()) continue;
    if (newest)
      it->why.insert(it->why.begin(), "newest");
    else if (it->why.empty())
      it->why.emplace_back("recent");
    newest = false;
  }
}

// Returns the metrics of the run to which a checkpoint belongs. Its ckpt/ may be a symbolic link to
// another disk, so the names in the path count first, and then where they lead.
std::string metrics_beside(const std::string& checkpoint) {
  std::error_code error;
  const fs::path path = fs::absolute(checkpoint, error).lexically_normal();
  const std::string named = Workdir(path.parent_path().parent_path().string()).metrics();
  return file_exists(named) ? named : Workdir(checkpoint + "/../..").metrics();
}

// Adds the values that the run measured at the checkpoints' steps.
void add_values(const std::string& metrics, CheckpointList& list) {
  std::map<int64_t, Row> rows;
  for (const ListedCheckpoint& listed : list.checkpoints) {
    if (listed.step) rows[*listed.step];
  }
  MetricSummary all;
  for_each_row(metrics, [&](int64_t step, const Row& row) {
    all.add(step, row);
    if (const auto wanted = rows.find(step); wanted != rows.end()) wanted->second = row;
  });
  list.metric = all.main_metric();
  for (ListedCheckpoint& listed : list.checkpoints) {
    if (!listed.step) continue;
    for (const auto& [name, value] : rows.at(*listed.step)) {
      if (name == list.metric) listed.value = value;
    }
  }
}

}  // namespace

std::vector<std::string> checkpoint_folders(const std::string& given) {
  refuse_remote_path(given);
  std::string path = checkpoint_path(given);
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (!file_exists(path)) throw Error(Exit::usage, path, "no such checkpoint");
  if (is_checkpoint_folder(path)) return {path};
  const CkptFolder ckpt = CkptFolder::at(path);
  std::vector<std::string> folders;
  for (const int64_t step : ckpt.steps()) folders.push_back(ckpt.step(step));
  for (const std::string& best : ckpt.all_best()) folders.push_back(best);
  if (!folders.empty()) return folders;
  if (CkptFolder::step_of(name_of(path))) return {path};  // it has lost its manifest
  throw Error(Exit::usage, path,
              "holds no checkpoint (neither manifest.json nor step-<n>/ nor ckpt/step-<n>/)");
}

CheckpointList list_checkpoints(const std::string& path) {
  CheckpointList list;
  for (const std::string& folder : checkpoint_folders(path)) {
    ListedCheckpoint listed = listed_checkpoint(folder);
    const bool gone = !listed.fault.empty() && !file_exists(folder);
    if (!gone) list.checkpoints.push_back(std::move(listed));
  }
  if (list.checkpoints.empty()) throw Error(Exit::usage, path, "holds no checkpoint any more");
  mark_newest(list.checkpoints);
  // ckpt/ is in the workdir, whether or not `path` names it.
  add_values(metrics_beside(list.checkpoints.front().folder), list);
  return list;
}

std::string checkpoint_fault(const std::string& folder, FaultSearch search) {
  try {
    read_whole(folder, [&] {
      const Manifest manifest = read_manifest(folder);
      for (const Manifest::File& file : manifest.files) {
        if (search == FaultSearch::checksums)
          verify_file(folder, file);
        else
          with_file(folder, file, [](const ChunkReader&, const std::string&) {});
      }
      const auto step = CkptFolder::step_of(name_of(folder));
      if (step && *step != manifest.step)
        throw Error::bare(Exit::usage,
                          fmt::format("{} belongs to step {}", kManifestName, manifest.step));
    });
    return "";
  } catch (const Error& fault) {
    return fault.what();
  }
}

uint64_t folder_bytes(const std::string& folder) {
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code unreadable;
    if (it->is_regular_file(unreadable)) bytes += it->file_size(unreadable);
  }
  return bytes;
}

std::vector<int64_t> existing_steps(const CkptFolder& ckpt, std::vector<int64_t> steps) {
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  const std::vector<int64_t> known = ckpt.steps();
  for (const int64_t step : steps) {
    if (std::binary_search(known.begin(), known.end(), step)) continue;
    throw Error(Exit::usage, ckpt.path(),
                fmt::format("has no checkpoint of step {}{}{}", step,
                            known.empty() ? "" : "; there are ", fmt::join(known, ", ")));
  }
  return steps;
}

std::vector<int64_t> last_steps(const CkptFolder& ckpt, int64_t count) {
  std::vector<int64_t> steps = ckpt.steps();
  const int64_t found = std::ssize(steps);
  if (found < count) {
    throw Error(Exit::usage, ckpt.path(),
                fmt::format("has fewer checkpoints than {}: only {}", count, found));
  }
  steps.erase(steps.begin(), steps.end() - count);
  return steps;
}

}  // namespace bv
