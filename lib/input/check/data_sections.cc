#include "lib/input/check/data_sections.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "lib/config/load_config.h"
#include "lib/input/data_notes.h"
#include "lib/input/data_pair.h"
#include "lib/input/image/pixel_limit.h"
#include "lib/input/loader/loader.h"
#include "lib/input/quarantine.h"
#include "lib/input/sources/common/folder_index.h"
#include "lib/input/training_data.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr const char* kAuto = "auto";        // a value of num_classes
constexpr const char* kFolder = "data_dir";  // the key with which most sources name their folder

void add_inputs(const Config& input, std::vector<DataSection>& all) {
  const Config data = input.section("data");
  if (data.has("name")) {
    all.push_back({"input", input, input, data, "pp", false});
    return;
  }
  // A mixture: {own: 0.7, public: 0.3}. A data set without a share is not used.
  for (const std::string& name : data.keys()) {
    if (!input.is_map(name) || !(data.get<double>(name) > 0)) continue;
    const Config own = input.section(name);
    all.push_back({"input." + name, own, input, own.section("data"), "pp", false});
  }
}

// Adds the data sets of the evaluator fewshot_lsr.
void add_pairs(const std::string& name, const Config& keys, const Config& pairs,
               std::vector<DataSection>& all) {
  const std::string folder = keys.get(kFolder, "");
  for (const std::string& pair : pairs.keys()) {
    if (!pairs.has(pair)) continue;
    const std::string shown = name + "." + pair;
    const DataPair data = data_pair(pairs, pair, folder, shown);
    all.push_back({shown + ".train", keys, keys, data.train, "pp_train"});
    all.push_back({shown + ".test", keys, keys, data.test, "pp_eval"});
  }
}

void add_evaluators(const Config& evals, std::vector<DataSection>& all) {
  for (const auto& [key, keys] : evals.items()) {
    const std::string name = "evals." + key;
    // Two evaluators have their own data sets for training (knn, fewshot_lsr).
    constexpr const char *kTrain = "train", *kPairs = "datasets", *kTrainOps = "pp_train";
    const bool has_train = keys.is_map(kTrain);
    if (keys.is_map("data"))
      all.push_back({name, keys, keys, keys.section("data"), "pp_fn", has_train});
    if (has_train) {
      all.push_back({name + "." + kTrain, keys, keys, keys.section(kTrain),
                     keys.has(kTrainOps) ? kTrainOps : "pp_fn"});
    }
    if (keys.is_map(kPairs)) add_pairs(name, keys, keys.section(kPairs), all);
  }
}

// Returns OpenedData::file_folders. The keys are those of csv and jsonl, which check them.
std::map<std::string, std::string> file_folders(const Config& data) {
  constexpr const char *kFile = "fname", *kCsvFolder = "folder", *kFileKeys = "fopen_keys";
  const bool is_csv = data.is_text("name", "csv");
  if (!is_csv && !data.is_text("name", "jsonl") && !data.is_text("name", "bv:jsonl")) return {};
  const std::string own =
      std::filesystem::path(data.get<std::string>(kFile)).parent_path().string();
  std::map<std::string, std::string> folders;
  if (is_csv) {
    folders["image"] = data.get(kCsvFolder, own);
  } else if (data.is_map(kFileKeys)) {
    const Config keys = data.section(kFileKeys);
    for (const std::string& key : keys.keys()) folders[key] = keys.get<std::string>(key);
  } else if (data.is_list(kFileKeys)) {
    for (const std::string& key : data.get<std::vector<std::string>>(kFileKeys)) folders[key] = own;
  } else if (const auto key = data.maybe<std::string>(kFileKeys)) {
    folders[*key] = own;
  }
  return folders;
}

// Returns the first op of the pp string; no op also if it has a mistake, which data can be
// inspected without.
Pipeline first_op(const DataSection& section) {
  const std::string pp = section.owner.get(section.pp_key, "");
  try {
    return Pipeline(pp.substr(0, pp.find('|')), Place{});
  } catch (const Error&) {
    return Pipeline("", Place{});
  }
}

}  // namespace

std::vector<DataSection> data_sections(const Config& config) {
  std::vector<DataSection> all;
  if (config.is_map("input")) read_max_pixels(config.section("input"));
  if (config.is_map("input") && config.section("input").is_map("data"))
    add_inputs(config.section("input"), all);
  add_evaluators(config.section("evals"), all);
  throw_problems(config);
  if (all.empty()) config.fail("", "names no data: neither input.data nor an evaluator with data");
  return all;
}

void check_outside_data(const Config& config, const std::string& folder, const std::string& place,
                        const std::string& what, const std::string& subject) {
  // A copy: these reads must not add keys to the resolved config.
  for (const DataSection& each : data_sections(parse_config_json(config.json(), "config"))) {
    const std::string data =
        each.data.is_text("name", "image_folder") ? each.data.get<std::string>(kFolder) : "";
    if (data.empty() || !adds_classes(folder, data)) continue;
    throw Error(Exit::usage, place,
                fmt::format("{}is in '{}', the data of {}, where every folder is taken for a "
                            "class: choose {} outside of it",
                            subject, data, each.name, what));
  }
}

std::vector<DataSection> choose_sections(std::vector<DataSection> sections,
                                         const std::vector<std::string>& only) {
  if (only.empty()) return sections;
  const auto fits = [](const DataSection& section, const std::string& name) {
    return section.name == name || section.name.starts_with(name + ".");
  };
  std::vector<std::string> known;
  for (const DataSection& section : sections) known.push_back(section.name);
  for (const std::string& name : only) {
    if (std::none_of(sections.begin(), sections.end(),
                     [&](const DataSection& section) { return fits(section, name); }))
      throw Error(Exit::usage, "--only " + name, unknown_name_message("data set", name, known));
  }
  std::erase_if(sections, [&](const DataSection& section) {
    return std::none_of(only.begin(), only.end(),
                        [&](const std::string& name) { return fits(section, name); });
  });
  return sections;
}

DataOpener::DataOpener(const Config& config, std::vector<DataSection> sections,
                       const OpenOptions& options)
    : config_(config), sections_(std::move(sections)), options_(options) {
  env_.seed = static_cast<uint64_t>(config.get<int64_t>("seed", 0));
  if (!config.is_text("num_classes", kAuto))
    env_.num_classes = config.get<int64_t>("num_classes", 0);
}

OpenedData DataOpener::open(const DataSection& section) {
  if (options_.pp && !classes_) learn_classes();
  OpenedData opened;
  opened.name = section.name;
  if (section.data.has(kFolder)) opened.folder = section.data.get(kFolder, "");
  if (options_.pp) opened.pp = std::make_shared<Pipeline>(section.owner, section.pp_key);
  // As in a run: without class names, training data keeps its own numbers.
  bool matched = options_.pp && !section.own_classes;
  if (matched && section.name.starts_with("evals."))
    matched = opened.pp->reads_data_labels(section.owner.get("label_key", "labels"));
  else if (matched)
    matched = !classes_->names.empty();
  opened.data = open_data(section, matched ? classes_ : std::nullopt);
  const Pipeline first = first_op(section);
  for (const std::string& line : data_notes(*opened.data, first)) section.data.warn("", line);
  opened.file_folders = file_folders(section.data);
  opened.decoding = first.decodes();
  opened.class_folders = section.data.is_text("name", "image_folder");
  throw_problems(config_);
  return opened;
}

OpenDataset DataOpener::prepare(const DataSection& section) const {
  DataEnv env;
  env.source = env_;
  env.open_sources = open_sources_;
  if (section.own_classes) env.source.num_classes = 0;
  env.source.keep_broken = options_.keep_broken || section.owner.has("quarantine") ||
                           read_error_budget(section.loader) > 0;
  OpenDataset open = prepare_data(section.data, env);
  throw_problems(config_);
  return open;
}

std::shared_ptr<const Dataset> DataOpener::open_data(const DataSection& section,
                                                     const std::optional<ClassNames>& classes) {
  const auto list = options_.quarantine ? Quarantine::read(section.owner) : nullptr;
  const auto prepared = prepared_.extract(section.name);
  auto data = (prepared ? prepared.mapped() : prepare(section))(classes);
  return list ? list->leave_out(std::move(data), section.name, options_.threads) : data;
}

// Determines the label numbering of the training data, and num_classes, as a run does.
void DataOpener::learn_classes() {
  classes_.emplace();
  std::vector<std::shared_ptr<const Dataset>> opened;
  for (const DataSection& section : sections_) {
    if (!section.name.starts_with("input") || !classes_->names.empty()) break;
    const auto prepared = prepared_.emplace(section.name, prepare(section)).first;
    opened.push_back(prepared->second(std::nullopt));
    classes_->names = opened.back()->class_names();
  }
  if (opened.empty() || !config_.is_text("num_classes", kAuto)) return;
  const std::set<int64_t> labels =
      classes_->names.empty() ? labels_of_splits(opened) : std::set<int64_t>();
  env_.num_classes = count_classes(config_, classes_->names, labels, opened);
  config_.get<std::string>("num_classes");  // the word
  config_.replace("num_classes", env_.num_classes);
}

}  // namespace bv
