#include "lib/init/class_findings.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <set>
#include <vector>

#include "lib/init/found_source.h"
#include "lib/init/unusable_data.h"
#include "lib/input/class_map.h"
#include "lib/util/limits.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr int64_t kManyNumbers = 10;  // more classes that are numbers may be numbers to predict
constexpr int64_t kFewImages = 20;    // of few images, each may have a class of its own

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

// Adds the number of a split's images of each class to `count`. `names` are the class names of the
// training data. Returns false if the source does not have the labels. Throws if an image has a
// class that is not in `names`.
bool add_counts(const Source& source, const std::string& split, int64_t FoundClass::*count,
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

void check_classes(const DataFindings& found) {
  const auto used = std::count_if(found.classes.begin(), found.classes.end(),
                                  [](const FoundClass& one) { return one.examples > 0; });
  if (found.classes.empty() || used > 1) return;
  const std::string& name = found.most_frequent()->name;
  throw Error(
      Exit::usage, found.folder,
      fmt::format("has images of one class only, '{}': a classifier needs at least two{}", name,
                  found.labels.columns.empty() ? unused_list_hint(found.folder) : ""));
}

// Returns a note that the labels may be regression targets: many class numbers have no example, or
// a column that the user has chosen has very many. Returns "" if neither is so.
std::string note_of_numbers(const Source& source, const DataFindings& found) {
  const std::vector<FoundClass>& classes = found.classes;
  const auto gaps = std::count_if(classes.begin(), classes.end(),
                                  [](const FoundClass& one) { return one.examples == 0; });
  if (!source.class_names().empty() || classes.empty()) return "";
  const bool csv = found.data.source == "csv";
  const bool many = !found.labels.columns.empty() && std::ssize(classes) > kManyNumbers;
  if (!looks_like_numbers(gaps, std::ssize(classes)) && !many) return "";
  return fmt::format(
      "the labels are integers up to {} and are taken as classes{}; to predict numbers, {}",
      classes.size() - 1, gaps > 0 ? fmt::format(", {} of them without training images", gaps) : "",
      csv ? "use --task regress" : "write a config with `task: regress` (docs/labels.md)");
}

// Returns the words of a class name.
std::set<std::string> words_of(const std::string& name) {
  std::set<std::string> words;
  std::string word;
  for (const char c : name + " ") {
    const bool between = c == ' ' || c == '\t' || c == ',' || c == ';' || c == '|';
    if (!between) word += c;
    if (!between || word.empty()) continue;
    words.insert(word);
    word.clear();
  }
  return words;
}

// Returns a note if the names in a column look like several labels in a cell: at least half of them
// have several words, and there are no more different words than names.
std::string note_of_several(const DataFindings& found) {
  const FoundClass* example = nullptr;
  std::set<std::string> words;
  int64_t divided = 0;
  for (const FoundClass& one : found.classes) {
    const std::set<std::string> own = words_of(one.name);
    if (own.size() > 1) {
      ++divided;
      if (!example) example = &one;
    }
    words.insert(own.begin(), own.end());
  }
  const int64_t classes = std::ssize(found.classes);
  if (!example || 2 * divided < classes || std::ssize(words) > classes) return "";
  return fmt::format(
      "classes such as '{}' may be several labels in a cell; if they are, use --task multilabel",
      example->name);
}

}  // namespace

void read_classes(const Source& source, const Source& validation, const std::string& train_split,
                  const std::string& validation_split, DataFindings& found) {
  const std::vector<std::string> names = source.class_names();
  if (!add_counts(source, train_split, &FoundClass::examples, names, found.classes)) return;
  if (!found.sliced)
    add_counts(validation, validation_split, &FoundClass::validation, names, found.classes);
  for (size_t i = 0; i < names.size(); ++i) {
    if (i == found.classes.size()) found.classes.push_back({});
    found.classes[i].name = names[i];
  }
  check_classes(found);
}

void add_class_warnings(const Dataset& train, const Dataset& validation, DataFindings& found) {
  std::vector<std::string>& warnings = found.warnings;
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

std::string note_of_other_labels(const Source& source, const DataFindings& found) {
  if (found.task != LabelTask::classify || found.classes.empty()) return "";
  if (std::string note = note_of_numbers(source, found); !note.empty()) return note;
  if (found.data.source != "csv") return "";
  if (std::string note = note_of_several(found); !note.empty()) return note;
  const auto classes = std::ssize(found.classes);
  if (found.examples < kFewImages || 2 * classes <= found.examples) return "";
  return fmt::format("{} images have {} classes; is this the column with the classes?",
                     human_count(found.examples), human_count(classes));
}

}  // namespace bv
