#include "lib/compare/find_runs.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "lib/ckpt/workdir/workdir.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/text.h"

namespace bv {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 3;  // levels below a folder that is given

// Whether the folder is the --output of `bvtrain eval`: it holds rows, but no run.
bool is_evaluation(const Workdir& workdir) {
  return file_exists(workdir.evaluated()) && !file_exists(workdir.run_json());
}

// Whether a run has written to the folder. config.yaml proves nothing: people keep one next to the
// workdirs of an experiment.
bool has_run(const Workdir& workdir) {
  for (const std::string& file : {workdir.metrics(), workdir.run_json(), workdir.failed()}) {
    if (file_exists(file)) return true;
  }
  return folder_exists(workdir.ckpt().path());
}

// Returns the folders in a folder; none, and a warning, if it cannot be listed.
std::vector<std::string> folders_in(const std::string& folder, std::vector<std::string>& warnings) {
  std::vector<std::string> below;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code unreadable;
    if (it->is_directory(unreadable) && !it->path().filename().string().starts_with('.'))
      below.push_back(it->path().string());
  }
  if (!error) return below;
  warnings.push_back(
      fmt::format("{}: warning: cannot list: {}; left out", folder, error.message()));
  return {};
}

// The folders that were looked at. Links may lead to one of them in any number of ways.
struct LookedAt {
  int levels = 0;     // how many levels below it
  bool runs = false;  // whether it is a run, or holds some
};
using FoldersLookedAt = std::map<std::pair<dev_t, ino_t>, LookedAt>;

// Returns whether the folder is a run, or holds some.
bool collect(const std::string& folder, int levels, FoldersLookedAt& all,
             std::vector<std::string>& found, std::vector<std::string>& warnings) {
  struct stat info {};
  ::stat(folder.c_str(), &info);
  const auto [at, is_new] = all.try_emplace(std::pair(info.st_dev, info.st_ino));
  LookedAt& here = at->second;
  if (!is_new && here.levels >= levels) return here.runs;
  here.levels = levels;
  const Workdir workdir(folder);
  const bool evaluation = is_evaluation(workdir);
  bool runs = false;
  if (!evaluation && has_run(workdir)) {
    found.push_back(folder);
    return here.runs = true;
  }
  if (levels > 0) {
    for (const std::string& path : folders_in(folder, warnings))
      runs = collect(path, levels - 1, all, found, warnings) || runs;
  }
  if (!runs && !evaluation && file_exists(workdir.config())) {
    found.push_back(folder);
    runs = true;
  }
  return here.runs = runs;
}

std::vector<std::string> matches(const std::string& pattern) {
  glob_t result{};
  std::vector<std::string> paths;
  if (::glob(pattern.c_str(), 0, nullptr, &result) == 0)
    paths.assign(result.gl_pathv, result.gl_pathv + result.gl_pathc);
  ::globfree(&result);
  return paths;
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

std::vector<std::string> find_runs(const std::vector<std::string>& paths,
                                   std::vector<std::string>& warnings) {
  std::vector<std::string> named;
  for (const std::string& path : paths) {
    std::error_code error;
    if (fs::exists(path, error)) {  // even if its name contains a [
      named.push_back(path);
      continue;
    }
    const bool pattern = path.find_first_of("*?[") != std::string::npos;
    const std::vector<std::string> found = pattern ? matches(path) : std::vector<std::string>{};
    if (found.empty())
      throw Error(Exit::usage, path, pattern ? "matches no folder" : "no such folder");
    named.insert(named.end(), found.begin(), found.end());
  }
  std::map<std::string, std::string> runs;  // by canonical path
  for (const std::string& path : named) {
    std::vector<std::string> found;
    const size_t before = warnings.size();
    FoldersLookedAt all;
    if (folder_exists(path)) collect(without_slash(path), kDeepest, all, found, warnings);
    if (found.empty() && warnings.size() == before) {
      warnings.push_back(
          fmt::format("{}: warning: {}; left out", path,
                      folder_exists(path) ? "not a workdir, and it holds none" : "not a folder"));
    }
    for (const std::string& run : found) {
      std::error_code error;
      const fs::path real = fs::canonical(run, error);
      runs.emplace(error ? run : real.string(), run);
    }
  }
  std::vector<std::string> sorted;
  for (const auto& [real, run] : runs) sorted.push_back(run);
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

std::vector<std::string> short_names(const std::vector<std::string>& workdirs) {
  std::vector<std::vector<std::string>> parts;
  for (const std::string& workdir : workdirs) parts.push_back(split(workdir, '/'));
  size_t common = 0;
  const auto shared = [&](size_t i) {
    return std::all_of(parts.begin(), parts.end(), [&](const auto& path) {
      return i + 1 < path.size() && path[i] == parts[0][i];
    });
  };
  while (!parts.empty() && shared(common)) ++common;
  std::vector<std::string> names;
  for (auto& path : parts)
    names.push_back(join({path.begin() + static_cast<std::ptrdiff_t>(common), path.end()}, "/"));
  return names;
}

}  // namespace bv
