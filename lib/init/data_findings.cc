#include "lib/init/data_findings.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "lib/config/load_config.h"
#include "lib/init/unusable_data.h"
#include "lib/init/yaml_text.h"
#include "lib/input/broken_files.h"
#include "lib/input/class_map.h"
#include "lib/input/data_notes.h"
#include "lib/input/dataset.h"
#include "lib/input/image/image_suffix.h"
#include "lib/input/sources/common/folder_index.h"
#include "lib/util/limits.h"
#include "lib/util/text.h"

namespace bv {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSample = 256;           // images that are decoded
constexpr int64_t kValidationSample = 64;  // the same, of a validation split
constexpr int64_t kFewest = 3;  // examples that can be split into training and validation data
constexpr int64_t kImbalance = 3;

DetectedData detect_one(const std::string& folder) {
  std::vector<DetectedData> found = detect_data(folder);
  if (found.empty()) throw Error(Exit::usage, folder, unknown_folder(folder));
  if (found.size() > 1) {
    std::vector<std::string> kinds;
    for (const DetectedData& data : found) kinds.push_back(data.kind);
    throw Error(Exit::usage, folder,
                fmt::format("holds data of several kinds ({}): move them into separate folders",
                            join(kinds, "; ")));
  }
  return std::move(found[0]);
}

std::shared_ptr<const Source> open_source(const DetectedData& data, const DataKeys& keys,
                                          const std::string& folder, bool keep_broken) {
  std::string yaml = "name: " + data.source + "\n";
  for (const auto& [key, value] : keys) yaml += key + ": " + yaml_text(value) + "\n";
  const Config config = parse_config(yaml, folder);
  config.mark_read("name");  // only some sources read it
  SourceEnv env;
  env.keep_broken = keep_broken;
  std::shared_ptr<const Source> source =
      Source::Registry::make(data.source, config, config.place(), env);
  throw_problems(config);
  return source;
}

// Tries `names` in order and returns the first split of the source that has such a name; "" if
// there is none.
std::string first_split(const Source& source, SplitNames names) {
  const std::vector<std::string> known = source.splits();
  for (size_t i = 0; i < names.size(); ++i) {
    for (const std::string& split : known) {
      if (is_named(split, names.subspan(i, 1))) return split;
    }
  }
  return "";
}

size_t index_of(const Source& source, const std::string& split) {
  const std::vector<std::string> known = source.splits();
  return static_cast<size_t>(std::find(known.begin(), known.end(), split) - known.begin());
}

std::string training_split(const Source& source, const std::string& folder) {
  const std::vector<std::string> known = source.splits();
  const std::string named = first_split(source, kTrainingNames);
  if (!named.empty()) return named;
  if (known.size() == 1 && !is_split_name(known[0])) return known[0];
  throw Error(
      Exit::usage, folder,
      fmt::format("has no split 'train', only {}; rename the one for training", join(known, ", ")));
}

// Returns the percentage of examples to train on. The fewer examples there are, the larger the
// validation part must be.
int training_percent(int64_t examples) { return examples < 1000 ? 80 : examples < 20000 ? 90 : 95; }

// Returns whether the label of the first example is below 0.
bool begins_with_negative_label(const Source& source, size_t split) {
  try {
    const Example first = source.read_values(split, 0);
    const auto label = first.find("label");
    return label != first.end() && label->second.numel() == 1 && label->second.item<double>() < 0;
  } catch (const Error&) {
    return false;  // the example is broken, which is not the question here
  }
}

// Returns whether a split has a label below 0. If the labels are not known before they are read,
// looks at the first one only: test data whose labels are secret has the label -1 everywhere.
bool has_negative_label(const Source& source, size_t split) {
  if (source.size(split) == 0) return false;
  const at::Tensor labels = source.labels(split);
  if (!labels.defined()) return begins_with_negative_label(source, split);
  const int64_t* values = labels.const_data_ptr<int64_t>();
  return std::any_of(values, values + labels.size(0),
                     [](const int64_t label) { return label < 0 && label != Source::kNoLabel; });
}

// Returns the split with test data; "" if there is none, or, with a note, if it has negative
// labels.
std::string test_split(const Source& source, std::vector<std::string>& notes) {
  const std::string split = first_split(source, kTestNames);
  if (split.empty() || !has_negative_label(source, index_of(source, split))) return split;
  notes.push_back(fmt::format("not used: the split '{}', which has labels below 0", split));
  return "";
}

// Divides a split in two.
void slice(const std::string& split, DataFindings& found) {
  const int percent = training_percent(found.examples);
  found.train = fmt::format("{}[:{}%]", split, percent);
  found.validation = fmt::format("{}[{}%:]", split, percent);
  found.sliced = true;
}

// Returns whether the slice `part` of a split may be a random choice of its examples. If the split
// is not shuffled, the slice may have examples of few classes, or far too many of one.
bool may_be_random(const Dataset& part, const std::vector<FoundClass>& classes) {
  std::map<int64_t, int64_t> counts = part.label_counts();
  double all = 0, in_part = 0;
  for (size_t label = 0; label < classes.size(); ++label) {
    all += static_cast<double>(classes[label].examples);
    in_part += static_cast<double>(counts[static_cast<int64_t>(label)]);
  }
  for (size_t label = 0; label < classes.size(); ++label) {
    const auto size = static_cast<double>(classes[label].examples);
    const auto count = static_cast<double>(counts[static_cast<int64_t>(label)]);
    const double share = in_part / all, expected = share * size;
    const double deviation = std::sqrt(expected * (1 - share) * (1 - size / all));
    const bool misses = count == 0 && expected >= 1, takes_all = count == size && size > 1;
    if (misses || takes_all || std::abs(count - expected) > 4 * deviation + 2) return false;
  }
  return true;
}

// Divides a split by folds, which are stratified by class, if a slice of it is not a fair sample.
void divide_by_folds(const std::shared_ptr<const Source>& source, const std::string& split,
                     DataFindings& found) {
  if (!found.sliced || found.classes.empty() || source->sorted_by_class(index_of(*source, split)))
    return;
  if (may_be_random(Dataset(source, found.validation, Place{found.folder}), found.classes)) return;
  const int folds = 100 / (100 - training_percent(found.examples));
  found.train = fmt::format("{}[not fold 1/{}]", split, folds);
  found.validation = fmt::format("{}[fold 1/{}]", split, folds);
}

// Opens the source without tolerance for broken files. Finds the broken files that opening detects,
// in the splits `used` only.
void find_broken_files(const std::set<std::string>& used, DataFindings& found) {
  for (const DataKeys* keys : {&found.data.train, &found.data.validation}) {
    if (keys->empty()) continue;
    const auto strict = open_source(found.data, *keys, found.folder, /*keep_broken=*/false);
    if (strict->is_array()) continue;  // has no files per image, and would be read twice
    const std::vector<std::string> splits = strict->splits();
    for (size_t split = 0; split < splits.size(); ++split) {
      if (!used.contains(splits[split])) continue;
      try {
        strict->size(split);
      } catch (const BrokenFiles& broken) {
        // A CSV file reports the same rows for each of its splits.
        const std::string first = broken.problems().at(0).what();
        if (std::find(found.broken.begin(), found.broken.end(), first) != found.broken.end())
          continue;
        for (const Error& problem : broken.problems()) found.broken.push_back(problem.what());
        found.broken_files +=
            std::ssize(broken.problems()) + static_cast<int64_t>(broken.left_out());
      }
    }
  }
}

// Returns the class names of a source. If it has none, returns the training class names that its
// labels mean, by the rule of a run (Dataset::use_classes()).
std::vector<std::string> names_in(const Source& source, const at::Tensor& labels,
                                  const std::vector<std::string>& training) {
  std::vector<std::string> own = source.class_names();
  if (!own.empty()) return own;
  std::set<int64_t> listed;
  for (int64_t i = 0; source.labels_may_be_names() && i < labels.size(0); ++i) {
    const int64_t label = labels.const_data_ptr<int64_t>()[i];
    if (label != Source::kNoLabel) listed.insert(label);
  }
  return names_of_labels(training, listed).names;
}

// Counts the images of each class of a split. `names` are the class names of the training data.
// Returns false if the source does not have the labels. Throws if an image has a class that is not
// in `names`.
bool count_classes(const Source& source, const std::string& split, int64_t FoundClass::*count,
                   const std::vector<std::string>& names, std::vector<FoundClass>& classes) {
  const size_t index = index_of(source, split);
  const at::Tensor labels = source.labels(index);
  if (!labels.defined()) return false;
  const int64_t* values = labels.const_data_ptr<int64_t>();
  const std::vector<std::string> own = names_in(source, labels, names);
  const ClassMap number_of(own, {names.empty() ? names_by_number(own) : names},
                           /*others_unknown=*/source.class_names().empty());
  for (int64_t i = 0; i < labels.size(0); ++i) {
    if (values[i] == Source::kNoLabel) continue;
    const int64_t label = number_of(values[i]);
    if (label == ClassMap::kUnknown && values[i] >= 0) {
      const bool named = values[i] < std::ssize(own);
      throw Error(Exit::usage, source.describe(index, i),
                  fmt::format("belongs to the class '{}', which the training data does not have",
                              named ? own[values[i]] : fmt::format("{}", values[i])));
    }
    if (label < 0 || label >= int64_t{limits::kClasses}) {
      throw Error(Exit::usage, "",
                  fmt::format("{} has the label {}, expected 0, 1, 2, ...",
                              source.describe(index, i), label));
    }
    while (std::ssize(classes) <= label)
      classes.push_back({.name = fmt::format("{}", classes.size())});
    ++(classes[label].*count);
  }
  return true;
}

// Returns a note if labels without class names may be regression targets; "" otherwise.
std::string note_of_gaps(const Source& source, const std::vector<FoundClass>& classes) {
  const auto gaps = std::count_if(classes.begin(), classes.end(),
                                  [](const FoundClass& one) { return one.examples == 0; });
  if (!looks_like_numbers(gaps, std::ssize(classes)) || !source.class_names().empty()) return "";
  return fmt::format(
      "the labels are integers up to {} and are taken as classes, {} of them without training "
      "images; to predict numbers, write a config with `task: regress` (docs/labels.md)",
      classes.size() - 1, gaps);
}

void check_classes(const DataFindings& found) {
  const auto used = std::count_if(found.classes.begin(), found.classes.end(),
                                  [](const FoundClass& one) { return one.examples > 0; });
  if (found.classes.empty() || used > 1) return;
  const std::string& name = found.most_frequent()->name;
  throw Error(Exit::usage, found.folder,
              fmt::format("has images of one class only, '{}': a classifier needs at least two{}",
                          name, unused_list_hint(found.folder)));
}

void add_warnings(const DataFindings& found, const Dataset& train, const Dataset& validation,
                  std::vector<std::string>& warnings) {
  if (found.sliced) {
    for (const Dataset* part : {&train, &validation}) {
      if (std::string line = part->missing_classes(); !line.empty()) warnings.push_back(line);
    }
  }
  const bool from_1 = found.classes.size() > 1 && found.classes[0].name == "0" &&
                      found.classes[0].examples == 0 && found.classes[1].examples > 0;
  if (from_1) warnings.emplace_back("the labels begin at 1: class '0' has no training images");
  for (const FoundClass& one : found.classes) {
    if (from_1 && &one == found.classes.data()) continue;
    if (one.examples == 0)
      warnings.push_back(fmt::format("class '{}' has no training images", one.name));
    else if (!found.sliced && one.validation == 0)
      warnings.push_back(fmt::format("class '{}' has no validation images", one.name));
  }
  constexpr size_t kMany = 8;
  if (warnings.size() > kMany) {
    const auto more = static_cast<int64_t>(warnings.size() - kMany);
    warnings.resize(kMany);
    warnings.push_back(fmt::format("and {} more warnings of this kind", human_count(more)));
  }
}

void add_notes(const Dataset& data, DataFindings& found) {
  for (const auto& [split, notes] : data.file_notes()) {
    found.turned |= notes.turned > 0;
    for (std::string& line : split_notes(split, notes, Pipeline("decode(exif=True)", Place())))
      found.notes.push_back(std::move(line));
  }
}

// The names and counts of the classes.
void read_classes(const Source& source, const Source& validation, const std::string& train_split,
                  const std::string& validation_split, DataFindings& found) {
  const std::vector<std::string> names = source.class_names();
  if (!count_classes(source, train_split, &FoundClass::examples, names, found.classes)) return;
  if (!found.sliced)
    count_classes(validation, validation_split, &FoundClass::validation, names, found.classes);
  for (size_t i = 0; i < names.size(); ++i) {
    if (i == found.classes.size()) found.classes.push_back({});
    found.classes[i].name = names[i];
  }
  check_classes(found);
}

void check_folder(const std::string& folder) {
  struct stat info;
  if (stat(folder.c_str(), &info) != 0)
    throw Error(Exit::usage, folder, errno == ENOENT ? "no such folder" : std::strerror(errno));
  if (!S_ISDIR(info.st_mode)) {
    const std::string own = fs::path(folder).parent_path().string();
    throw Error(Exit::usage, folder,
                has_image_suffix(folder) ? "is a file; give the folder that holds the data"
                                         : "is a file; give its folder: bvtrain init " +
                                               shell_word(own.empty() ? "." : own));
  }
  if (!valid_utf8(folder))
    throw Error(Exit::usage, folder, "a config cannot name this folder: its name is not UTF-8");
}

DataFindings inspect_checked(const std::string& folder) {
  DataFindings found;
  found.folder = folder;
  found.data = detect_one(folder);
  const DataKeys& train_keys = found.data.train;
  const auto source = open_source(found.data, train_keys, folder, /*keep_broken=*/true);
  const std::string split = training_split(*source, folder);
  found.train = split;
  found.examples = source->size(index_of(*source, split));
  auto other = source;
  std::vector<std::string> unused;  // notes
  if (!found.data.validation.empty()) {
    other = open_source(found.data, found.data.validation, folder, /*keep_broken=*/true);
    found.validation = training_split(*other, folder);
  } else {
    found.validation = first_split(*source, kValidationNames);
    found.test = test_split(*source, unused);
    if (found.validation.empty()) found.validation = std::exchange(found.test, "");
    if (found.validation == split) found.validation.clear();
  }
  const std::string validation_split = found.validation;
  find_broken_files({split, validation_split, found.test}, found);
  if (found.validation.empty()) slice(split, found);
  refuse_targets(*source, index_of(*source, split), found.data.source);
  refuse_empty_split(*source, index_of(*source, split));
  if (!found.sliced) refuse_empty_split(*other, index_of(*other, validation_split));
  if (found.data.source == "image_folder")
    refuse_empty_classes(*source, {split, validation_split, found.test}, folder);
  read_classes(*source, *other, split, validation_split, found);
  if (found.examples < kFewest) {
    throw Error(Exit::usage, folder,
                fmt::format("has {} images, too few to train and to validate on", found.examples));
  }
  divide_by_folds(source, split, found);
  const Dataset train(source, found.train, Place{folder});
  const Dataset validation(other, found.validation, Place{folder});
  found.train_examples = train.size();
  found.validation_examples = validation.size();
  found.images = sample_images(*source, index_of(*source, split), kSample);
  if (!found.sliced) {
    add_validation(found.images,
                   sample_images(*other, index_of(*other, validation_split), kValidationSample));
  }
  if (found.any_broken()) refuse_unreadable_classes(*source, index_of(*source, split), folder);
  found.turned = found.images.turned > 0;
  add_warnings(found, train, validation, found.warnings);
  if (found.images.deep > 0)
    found.warnings.push_back(deep_png_note(found.images.deep, found.images.tried));
  found.notes = found.data.notes;
  found.notes.insert(found.notes.end(), unused.begin(), unused.end());
  if (std::string note = note_of_gaps(*source, found.classes); !note.empty())
    found.notes.push_back(std::move(note));
  for (const std::string& name : source->splits()) {
    const bool used = name == split || name == validation_split || name == found.test;
    if (found.data.source == "image_folder" && !used)
      found.notes.push_back(fmt::format("not used: the split '{}'", name));
  }
  add_notes(train, found);
  if (!found.sliced) add_notes(validation, found);
  return found;
}

}  // namespace

const FoundClass* DataFindings::rarest() const {
  const FoundClass* least = nullptr;
  for (const FoundClass& one : classes) {
    if (one.examples > 0 && (!least || one.examples < least->examples)) least = &one;
  }
  return least;
}

const FoundClass* DataFindings::most_frequent() const {
  const auto most =
      std::max_element(classes.begin(), classes.end(),
                       [](const auto& a, const auto& b) { return a.examples < b.examples; });
  return most == classes.end() ? nullptr : &*most;
}

bool DataFindings::imbalanced() const {
  const FoundClass* least = rarest();
  return least && most_frequent()->examples >= kImbalance * least->examples;
}

DataFindings inspect_data(const std::string& given) {
  std::string folder = given;
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  check_folder(folder);
  try {
    return inspect_checked(folder);
  } catch (const Error& error) {
    if (!error.needs_place()) throw;
    throw Error(error.code(), folder, error.message());
  } catch (const fs::filesystem_error& error) {
    throw Error(Exit::usage, folder, error.code().message());
  }
}

}  // namespace bv
