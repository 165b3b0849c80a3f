#include "lib/input/prepare_data.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "lib/input/broken_files.h"
#include "lib/input/path.h"
#include "lib/input/skip_hint.h"
#include "lib/input/sources/common/records/tfds_folder.h"
#include "lib/input/sources/synthetic.h"
#include "lib/input/split.h"
#include "lib/util/file.h"
#include "lib/util/parse_count.h"

namespace bv {
namespace {

const KeyTable prepare_data_keys(
    "input.data",
    {"A data set and the part of it to use. Further keys depend on the kind that `name` chooses.",
     "name: image_folder\ndata_dir: data/flowers\nsplit: train[:90%]", "datasets/core.py get"},
    {}, kDataKeys);

// TFDS's names for data sets whose published files one of our sources reads: for messages.
const std::map<std::string, std::string> kTfdsNames = {{"cifar10", "cifar"},
                                                       {"cifar100", "cifar"},
                                                       {"emnist", "idx"},
                                                       {"fashion_mnist", "idx"},
                                                       {"imagenet2012", "image_folder"},
                                                       {"imagenet_v2", "image_folder"},
                                                       {"imagenette", "image_folder"},
                                                       {"kmnist", "idx"},
                                                       {"mnist", "idx"}};

// The split sizes of well-known data sets, so that a --synthetic run has the real number of steps.
const std::map<std::string, std::map<std::string, int64_t>> kSizes = {
    {"cifar10", {{"train", 50'000}, {"test", 10'000}}},
    {"cifar100", {{"train", 50'000}, {"test", 10'000}}},
    {"imagenet2012", {{"train", 1'281'167}, {"validation", 50'000}}},
    {"imagenet2012_real", {{"validation", 50'000}}},
    {"imagenet21k", {{"full", 14'197'122}}},
    {"imagenet_v2", {{"test", 10'000}}}};

bool registered(const std::string& name) {
  const std::vector<std::string> names = Source::Registry::names();
  return std::binary_search(names.begin(), names.end(), name);
}

// Returns the folder in which `data` looks for data sets of TFDS.
std::string root_of(const Config& data) {
  constexpr std::string_view kFolder = "data_dir";  // a key of the source tfds
  return tfds_root(maybe_path(data, kFolder).value_or(""));
}

[[noreturn]] void unknown_source(const Config& data, const std::string& name) {
  std::string message = unknown_name_message(Source::kKind, name, Source::Registry::names());
  if (const auto tfds = kTfdsNames.find(name); tfds != kTfdsNames.end()) {
    message += fmt::format(
        " ('{}' is TFDS's name: data_dir says where TFDS has prepared it; its published files are "
        "read by 'name: {}')",
        name, tfds->second);
  }
  const std::string root = root_of(data);
  if (data.has("data_dir") || folder_exists(root))
    message += fmt::format("; and no TFDS data set in '{}' has this name", root);
  throw Error(Exit::usage, data.place("name"), message);
}

// Returns whether TFDS has prepared a data set `name`, "name:version" or "name/config".
bool is_tfds(const Config& data, const std::string& name) {
  return folder_exists(root_of(data) + "/" + name.substr(0, name.find_first_of("/:")));
}

// Returns how many generated examples the split expression selects, 0 if it does not fit them.
int64_t selected_size(const SyntheticSpec& spec, const std::vector<std::string>& names,
                      const std::string& split, const Place& split_place, const SourceEnv& env) {
  try {
    return Dataset(make_synthetic(spec, names, env), split, split_place).size();
  } catch (const Error&) {  // such as a slice that would be empty
    return 0;
  }
}

// Returns a source of generated data whose splits are large enough for every absolute bound of the
// split expression, and for env.min_split_size if more examples help.
std::shared_ptr<const Source> stand_in(SyntheticSpec spec, const std::string& split,
                                       const Place& split_place, const SourceEnv& env) {
  std::vector<std::string> names;
  int64_t farthest = 0;
  for (const SplitTerm& term : parse_split(split, split_place)) {
    if (std::find(names.begin(), names.end(), term.base) == names.end()) names.push_back(term.base);
    for (const auto& bound : {term.begin, term.end}) {
      if (!bound || bound->unit != SplitTerm::Unit::examples) continue;
      constexpr int64_t kMaxBound = int64_t{1} << 40;
      farthest = std::max(farthest, std::clamp(bound->value, -kMaxBound, kMaxBound));
      farthest = std::max(farthest, -std::clamp(bound->value, -kMaxBound, kMaxBound));
    }
  }
  if (farthest >= spec.size) spec.size += farthest;
  spec.size = std::max(spec.size, 2 * env.min_split_size);
  constexpr int kMostDoublings = 12;
  constexpr int64_t kMostExamples = int64_t{1} << 50;
  const int64_t wanted = std::max<int64_t>(env.min_split_size, 1);
  SyntheticSpec larger = spec;
  for (int i = 0; i <= kMostDoublings && larger.size <= kMostExamples; ++i, larger.size *= 2) {
    if (selected_size(larger, names, split, split_place, env) >= wanted)
      return make_synthetic(larger, names, env);
  }
  return make_synthetic(spec, names, env);
}

// Lets generated examples have the labels that pp and the task need, unless the source says itself
// what its labels are.
SyntheticSpec with_label_of(SyntheticSpec spec, const DataEnv& env) {
  using Labels = SyntheticSpec::Labels;
  if (spec.labels != Labels::class_number || spec.label != "label") return spec;
  const bool as_they_are = env.labels_from == "labels";
  if (env.labels_are_numbers)
    spec.labels = Labels::target_and_targets;
  else if (as_they_are)
    spec.labels = Labels::number_and_classes;
  const bool one = !env.labels_from.empty() && env.labels_from.find('+') == std::string::npos;
  if (one && !as_they_are) spec.label = env.labels_from;
  return spec;
}

// Returns an example of what it means that labels are compared by number: the first class whose
// name is another number than its own, or else class 0.
std::string compared_by_number(const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    const auto number = parse_count<size_t>(names[i]);
    if (number && *number != i)
      return fmt::format("labels are compared by number, so label {} means the class '{}'", i,
                         names[i]);
  }
  return fmt::format("labels are compared by number (0 is '{}')", names[0]);
}

// Returns the keys on which a source depends. Which of its splits are used makes no difference.
// Only csv and synthetic depend on the number of classes, which the training data may have to be
// read for.
std::string source_keys(const Config& data, const SourceEnv& env) {
  nlohmann::json keys = nlohmann::json::parse(data.json());
  keys.erase("split");
  keys.erase("unknown_classes");
  const bool counts = data.is_text("name", "csv") || data.is_text("name", "synthetic");
  return fmt::format("{} {} {}", keys.dump(), counts ? env.num_classes : 0, env.keep_broken);
}

// Renumbers the labels by class name, with problems and warnings at the section `data`.
void match_classes_of(const Config& data, Dataset& dataset, const ClassNames& classes, bool skip) {
  try {
    for (const std::string& line : match_classes(dataset, classes, skip)) data.warn("", line);
  } catch (const Error& error) {
    if (error.code() != Exit::usage || !error.needs_place()) throw;
    data.fail("", error.message());
  }
}

}  // namespace

std::vector<std::string> match_classes(Dataset& dataset, const ClassNames& classes,
                                       bool skip_unknown) {
  const std::vector<std::string> own = dataset.class_names();
  const bool named = !own.empty(), run_named = !classes.names.empty();
  std::vector<std::string> warnings;
  if (std::string note = dataset.use_classes(classes, skip_unknown); !note.empty())
    warnings.push_back(std::move(note));
  if (named == run_named) return warnings;
  const std::vector<std::string>& names = named ? own : classes.names;
  const std::vector<std::string> numbered = names_by_number(names);
  if (numbered == names) return warnings;
  const LabelNames& read = dataset.label_names();
  if (read.ambiguous) {
    warnings.push_back(
        fmt::format("has no class names, but each label is the name of a class of {} and is taken "
                    "as that name, not as the number of a class",
                    classes.owner));
  }
  if (read.listed) return warnings;
  warnings.push_back(fmt::format("{} class names, but {} {}: {}", named ? "has" : "has no",
                                 classes.owner, run_named ? "has" : "has none",
                                 numbered.empty()
                                     ? compared_by_number(names)
                                     : "these names are numbers, so label 2 is the class '2', "
                                       "wherever it is in the list of classes"));
  return warnings;
}

std::shared_ptr<const Source> OpenSources::find(const std::string& keys) const {
  const std::lock_guard lock(mutex_);
  const auto found = sources_.find(keys);
  return found == sources_.end() ? nullptr : found->second.lock();
}

void OpenSources::add(const std::string& keys, const std::shared_ptr<const Source>& source) {
  const std::lock_guard lock(mutex_);
  sources_[keys] = source;
}

bool is_mixture(const Config& data) {
  const nlohmann::json values = nlohmann::json::parse(data.json());
  return !values.empty() && std::all_of(values.begin(), values.end(),
                                        [](const auto& value) { return value.is_number(); });
}

std::vector<std::string> known_tfds_names() {
  std::vector<std::string> names;
  for (const auto& [name, sizes] : kSizes) names.push_back(name);
  return names;
}

OpenDataset prepare_data(const Config& data, const DataEnv& env) {
  if (is_mixture(data))
    data.fail("", "only input.data can be a mixture of data sets; choose one with 'name'");
  const auto name = data.get<std::string>("name");
  const auto split = data.get("split", "train");
  const Place split_place = data.place("split");
  const bool skip = data.word("unknown_classes", "error", {"error", "skip"}) == "skip";
  // A malformed split is reported together with problems of the source.
  attempt(data, [&] { parse_split(split, split_place); });
  std::shared_ptr<const Source> source;
  if (registered(name)) {
    source = Source::Registry::make(name, data, data.place("name"), env.source);
    if (env.synthetic) {
      const SyntheticSpec spec = with_label_of(source->synthetic_spec(), env);
      source = stand_in(spec, split, split_place, env.source);
    }
  } else if (env.synthetic) {
    data.mark_read();
    SyntheticSpec spec;
    if (const auto known = kSizes.find(name); known != kSizes.end())
      spec.split_sizes = known->second;
    if (name.ends_with("_real")) spec.label = "real_label";  // the ReaL labels of ImageNet
    if (name == "imagenet21k") spec.label = "labels";        // an image may have several
    source = stand_in(with_label_of(spec, env), split, split_place, env.source);
  } else if (is_tfds(data, name)) {
    source = Source::Registry::make("tfds", data, data.place("name"), env.source);
  } else {
    data.mark_read();
    unknown_source(data, name);
  }
  parse_split(split, split_place);  // throws again: no file is opened with a malformed split
  const auto shared = env.synthetic ? nullptr : env.open_sources;
  return [=, section = env.skip_section, source_keys = shared ? source_keys(data, env.source) : ""](
             const std::optional<ClassNames>& classes) {
    try {
      const auto other = shared ? shared->find(source_keys) : nullptr;
      auto dataset = std::make_shared<Dataset>(other ? other : source, split, split_place);
      if (shared && !other) shared->add(source_keys, source);
      if (classes) match_classes_of(data, *dataset, *classes, skip);
      return dataset;
    } catch (const BrokenFiles& error) {
      if (section.empty()) throw;
      std::vector<Error> problems = error.problems();
      Error& last = problems.back();
      last = Error(Exit::usage, last.where(), last.message() + " " + skip_hint(section));
      throw Error::all(Exit::usage, std::move(problems), error.left_out());
    }
  };
}

}  // namespace bv
