// bvtrain data check|stats|index: inspects the data that a config names, or a data folder.
#include <ATen/Parallel.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <map>

#include "app/commands.h"
#include "app/json_output.h"
#include "app/output_format.h"
#include "app/standard_output.h"
#include "lib/ckpt/file_writer.h"
#include "lib/config/load_config.h"
#include "lib/init/folder_config.h"
#include "lib/input/check/check_data.h"
#include "lib/input/check/data_stats.h"
#include "lib/input/quarantine.h"
#include "lib/report/live_line.h"
#include "lib/report/log.h"
#include "lib/report/log_warnings.h"
#include "lib/train/recipe_reading.h"
#include "lib/util/file.h"
#include "lib/util/folder_entries.h"
#include "lib/util/host.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// The data sets that the command line names.
struct ChosenData {
  Config config;
  std::vector<DataSection> all, chosen;
  int threads = 1;
};

ChosenData choose_data(const Arguments& arguments) {
  const Arguments::Data& given = arguments.data;
  if (arguments.config.empty() == given.folder.empty()) {
    throw Error(Exit::usage, "bvtrain data " + arguments.part,
                given.folder.empty() ? "give --config FILE, or a folder of data"
                                     : "give either --config or a folder");
  }
  if (!given.folder.empty() && !arguments.overrides.empty())
    throw Error(Exit::usage, arguments.overrides[0].origin, "needs --config");
  if (!given.folder.empty() && given.pp)
    throw Error(Exit::usage, "--pp", "needs --config, which has the pp strings");
  ChosenData data;
  data.config = given.folder.empty() ? load_config(arguments.config, arguments.overrides)
                                     : folder_config(given.folder);
  data.all = data_sections(data.config);
  // The list covers the examples of all splits, not one part of a config.
  if (!given.folder.empty() && data.all.size() == 1) data.all[0].name = name_in_list(given.folder);
  data.chosen = choose_sections(data.all, given.only);
  data.threads = given.threads > 0 ? given.threads : usable_cores();
  at::set_num_threads(1);  // an op in one of these threads must not start more threads
  return data;
}

// Opens all data sets before the first one is read.
std::vector<OpenedData> open_all(const ChosenData& data, const OpenOptions& options) {
  DataOpener opener(data.config, data.all, options);
  std::vector<OpenedData> opened;
  for (const DataSection& section : data.chosen) opened.push_back(opener.open(section));
  log_warnings(data.config);
  return opened;
}

Exit run_check(const Arguments& arguments) {
  check_output_file(arguments.output, "--output", StandardOutput::possible);
  check_output_is_no_input(arguments.output, {arguments.config, arguments.data.folder},
                           "data check reads");
  const ChosenData data = choose_data(arguments);
  // An older list, which the config names, may be replaced.
  check_output_is_not_in(arguments.output, data.config, "quarantine");
  const std::vector<OpenedData> opened =
      open_all(data, {.keep_broken = true, .pp = arguments.data.pp, .threads = data.threads});
  LookOptions options;
  options.pp = arguments.data.pp;
  options.seed = static_cast<uint64_t>(data.config.get<int64_t>("seed", 0));
  int64_t broken = 0, examples = 0;
  std::vector<std::string> counts, sizes;  // of each data set
  const auto run = [&](const std::function<void(const BrokenExample&)>& found) {
    for (const OpenedData& each : opened) {
      const int64_t own = check_data(each, data.threads, options, found);
      broken += own;
      examples += each.data->size();
      sizes.push_back(fmt::format("{}: {}", each.name, human_count(each.data->size())));
      counts.push_back(
          fmt::format("{}: {} of {}", each.name, human_count(own), human_count(each.data->size())));
    }
  };
  const bool to_file = !arguments.output.empty() && arguments.output != kStandardOutput;
  if (to_file) {
    replace_file(arguments.output, [&](FileWriter& file) {
      run([&](const BrokenExample& each) { file.write(line_of(each)); });
    });
  } else {
    run([](const BrokenExample& each) { write_stdout(line_of(each)); });
  }
  if (broken == 0) {
    log::info("All {} examples are valid ({})", human_count(examples), join(sizes, ", "));
    return Exit::ok;
  }
  throw Error(Exit::data, "bvtrain data check",
              fmt::format("{} of {} examples {} broken ({}){}", human_count(broken),
                          human_count(examples), broken == 1 ? "is" : "are", join(counts, ", "),
                          to_file ? fmt::format("; the key `quarantine: {}` excludes them",
                                                arguments.output)
                                  : ""));
}

Exit run_stats(const Arguments& arguments) {
  const ChosenData data = choose_data(arguments);
  const std::vector<OpenedData> opened =
      open_all(data, {.keep_broken = true, .quarantine = true, .threads = data.threads});
  const bool knows_classes = !data.config.is_text("num_classes", "auto");
  const int64_t num_classes = knows_classes ? data.config.get<int64_t>("num_classes", 0) : 0;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  int64_t broken = 0;
  for (size_t i = 0; i < opened.size(); ++i) {
    const bool own_classes = data.chosen[i].own_classes;
    const DataStats one = measure_data(opened[i], data.threads, own_classes ? 0 : num_classes);
    broken += one.broken;
    if (arguments.json)
      all.push_back(one.json());
    else
      print((i > 0 ? "\n" : "") + one.text());
  }
  if (arguments.json) print_json({{"data", all}});
  if (broken > 0) {
    log::warn("{} broken {} not counted; `bvtrain data check` lists what is broken",
              human_count(broken), broken == 1 ? "example is" : "examples are");
  }
  return Exit::ok;
}

// The stored indices and when each was written.
using StoredIndices = std::map<std::string, std::filesystem::file_time_type>;

StoredIndices stored_indices(const std::string& folder) {
  StoredIndices found;
  for_each_entry(folder, [&](const FolderEntry& entry) {
    const std::string file = folder + "/" + entry.name;
    std::error_code gone;  // another process may replace it meanwhile
    const auto written = std::filesystem::last_write_time(file, gone);
    if (!gone) found[file] = written;
  });
  return found;
}

// Returns the files of `after` that are new or have been replaced.
std::vector<std::string> written_since(const StoredIndices& before, const StoredIndices& after) {
  std::vector<std::string> files;
  for (const auto& [file, written] : after) {
    const auto old = before.find(file);
    if (old == before.end() || old->second != written) files.push_back(file);
  }
  return files;
}

Exit run_index(const Arguments& arguments) {
  const ChosenData data = choose_data(arguments);
  const std::string folder = cache_home() + "/index";
  make_folders(folder);
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    throw Error(Exit::storage, folder, "cannot be written, so no index can be stored");
  DataOpener opener(data.config, data.all, {.threads = data.threads});
  for (const DataSection& section : data.chosen) {
    const StoredIndices before = stored_indices(folder);
    const auto begin = std::chrono::steady_clock::now();
    const OpenedData opened = opener.open(section);
    // Makes a source that gets its size from elsewhere, such as tfds, open its files.
    opened.data->fingerprint();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    const std::vector<std::string> files = written_since(before, stored_indices(folder));
    print(fmt::format("{}: {} examples, opened in {}, {}\n", opened.name,
                      human_count(opened.data->size()), short_duration(seconds.count()),
                      files.empty() ? "no new index" : "index stored in " + join(files, ", ")));
  }
  log_warnings(data.config);
  return Exit::ok;
}

}  // namespace

Exit data_command(const Arguments& arguments) {
  if (arguments.part == "check") return run_check(arguments);
  if (arguments.part == "stats") return run_stats(arguments);
  if (arguments.part == "index") return run_index(arguments);
  throw Error(Exit::usage, "bvtrain data", "give one of check, stats and index");
}

}  // namespace bv
