#include "lib/compare/find_runs.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <tuple>
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

struct Subfolder {
  bool is_link = false;
  std::string name;
  bool operator<(const Subfolder& other) const {
    return std::tie(is_link, name) < std::tie(other.is_link, other.name);
  }
};

// Finds the workdirs below one folder, and the folder itself if it is one.
class RunSearch {
 public:
  struct Found {
    int links = 0;  // symbolic links in the path
    std::string path;
  };

  explicit RunSearch(std::vector<std::string>& warnings) : warnings_(warnings) {}

  // Returns whether the folder is a run, or holds some. `levels`: how many levels below it count.
  // `in_run`: it is in a workdir.
  bool collect(const std::string& folder, int levels, int links, bool in_run) {
    struct stat info {};
    ::stat(folder.c_str(), &info);
    const auto [at, is_new] = all_.try_emplace(std::pair(info.st_dev, info.st_ino));
    LookedAt& here = at->second;
    if (!is_new && here.levels >= levels && here.links <= links) return here.runs;
    here = {is_new ? levels : std::max(here.levels, levels),
            is_new ? links : std::min(here.links, links), here.runs};
    const Workdir workdir(folder);
    const bool evaluation = is_evaluation(workdir);
    // A copy of a run's ckpt/ in its workdir is no run.
    const bool run = !evaluation && has_run(workdir) && (!in_run || file_exists(workdir.config()));
    bool runs = run;
    if (levels > 0) {
      for (const auto& [is_link, name] : folders_in(folder)) {
        if ((run || in_run) && Workdir::is_folder_of_run(name)) continue;
        const std::string path = (fs::path(folder) / name).string();
        runs = collect(path, levels - 1, links + is_link, run || in_run) || runs;
      }
    }
    const bool prepared = !runs && !evaluation && !in_run && file_exists(workdir.config());
    if (run || prepared) found_.push_back({links, folder});
    return here.runs = runs || prepared;
  }
  const std::vector<Found>& found() const { return found_; }

 private:
  // The folders that were looked at. Links may lead to one of them in any number of ways.
  struct LookedAt {
    int levels = 0;     // how many levels below it
    int links = 0;      // the fewest on the way to it
    bool runs = false;  // whether it is a run, or holds some
  };

  // Returns the folders in a folder, first those that are no links, so that the names do not depend
  // on the order in which the system lists them. Returns none, and warns, if it cannot be listed.
  std::vector<Subfolder> folders_in(const std::string& folder) {
    std::vector<Subfolder> below;
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      std::error_code unreadable;
      std::string name = it->path().filename().string();
      if (it->is_directory(unreadable) && !name.starts_with('.'))
        below.push_back({it->is_symlink(unreadable), std::move(name)});
    }
    std::sort(below.begin(), below.end());
    if (!error) return below;
    warnings_.push_back(
        fmt::format("{}: warning: cannot list: {}; left out", folder, error.message()));
    return {};
  }

  std::vector<std::string>& warnings_;
  std::map<std::pair<dev_t, ino_t>, LookedAt> all_;
  std::vector<Found> found_;
};

// Why a path that holds no run is left out.
const char* no_run_text(const std::string& path) {
  if (!folder_exists(path)) return "not a folder";
  return is_evaluation(Workdir(path))
             ? "holds rows of `bvtrain eval`, not a run; give the run's workdir"
             : "not a workdir, and it holds none";
}

// Warns of each workdir that holds others, or links to others. `runs` has the paths by canonical
// path.
void warn_of_nested_runs(const std::map<std::string, RunSearch::Found>& runs,
                         std::vector<std::string>& warnings) {
  for (const auto& [real, run] : runs) {
    const std::string inside = real + "/", linked = run.path + "/";
    const int links = run.links;
    const int64_t count = std::count_if(runs.begin(), runs.end(), [&](const auto& other) {
      const RunSearch::Found& found = other.second;
      return other.first.starts_with(inside) ||
             (found.links > links && found.path.starts_with(linked));
    });
    if (count == 0) continue;
    warnings.push_back(
        fmt::format("{}: warning: is itself the workdir of a run; the table also has {} in the "
                    "folders below it",
                    run.path, counted(count, "run")));
  }
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
  std::map<std::string, RunSearch::Found> runs;  // by canonical path
  for (const std::string& path : named) {
    const size_t before = warnings.size();
    RunSearch search(warnings);
    const std::string folder = without_slash(path);
    std::error_code unreadable;
    if (folder_exists(path))
      search.collect(folder, kDeepest, fs::is_symlink(folder, unreadable), /*in_run=*/false);
    if (search.found().empty() && warnings.size() == before)
      warnings.push_back(fmt::format("{}: warning: {}; left out", path, no_run_text(path)));
    for (const RunSearch::Found& run : search.found()) {
      std::error_code error;
      const fs::path real = fs::canonical(run.path, error);
      const auto [at, is_new] = runs.emplace(error ? run.path : real.string(), run);
      if (!is_new && run.links < at->second.links) at->second = run;
    }
  }
  warn_of_nested_runs(runs, warnings);
  std::vector<std::string> sorted;
  for (const auto& [real, run] : runs) sorted.push_back(run.path);
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
