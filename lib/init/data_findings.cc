#include "lib/init/data_findings.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <tuple>
#include <utility>

#include "lib/init/class_findings.h"
#include "lib/init/found_source.h"
#include "lib/init/labelled_csv.h"
#include "lib/init/repeated_images.h"
#include "lib/init/unusable_data.h"
#include "lib/init/validation_part.h"
#include "lib/init/value_scaling.h"
#include "lib/init/vector_findings.h"
#include "lib/input/broken_files.h"
#include "lib/input/data_notes.h"
#include "lib/input/dataset.h"
#include "lib/input/image/image_suffix.h"
#include "lib/input/sources/common/folder_index.h"
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
    const bool csv = std::any_of(found.begin(), found.end(),
                                 [](const DetectedData& data) { return data.source == "csv"; });
    throw Error(
        Exit::usage, folder,
        fmt::format("holds data of several kinds ({}): move them into separate folders{}",
                    join(kinds, "; "), csv ? ", or choose the CSV file with --label COLUMN" : ""));
  }
  return std::move(found[0]);
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

std::string training_split(const Source& source, const std::string& folder) {
  const std::vector<std::string> known = source.splits();
  const std::string named = first_split(source, kTrainingNames);
  if (!named.empty()) return named;
  if (known.size() == 1 && !is_split_name(known[0])) return known[0];
  throw Error(
      Exit::usage, folder,
      fmt::format("has no split 'train', only {}; rename the one for training", join(known, ", ")));
}

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

// Opens the source without tolerance for broken files. Finds the broken files that opening detects,
// in the splits `used` only.
void find_broken_files(const std::set<std::string>& used, DataFindings& found) {
  for (const DataKeys* keys : {&found.data.train, &found.data.validation}) {
    if (keys->empty()) continue;
    const auto strict = open_source(found, *keys, /*keep_broken=*/false);
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

void add_notes(const Dataset& data, DataFindings& found) {
  for (const auto& [split, notes] : data.file_notes()) {
    found.turned |= notes.turned > 0;
    for (std::string& line : split_notes(split, notes, Pipeline("decode(exif=True)", Place())))
      found.notes.push_back(std::move(line));
  }
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

// The opened data, and which of its splits are used.
struct FoundSources {
  std::shared_ptr<const Source> source;  // of the training data
  std::shared_ptr<const Source> other;   // of the validation data, which may be the same
  std::string split, validation_split;   // the latter is "" if there is no validation data
};

// Opens the data and chooses the splits.
FoundSources open_data(DataFindings& found) {
  FoundSources data;
  data.source = open_source(found, found.data.train, /*keep_broken=*/true);
  data.split = training_split(*data.source, found.folder);
  found.train = data.split;
  found.examples = data.source->size(index_of(*data.source, data.split));
  data.other = data.source;
  found.notes = found.data.notes;
  if (!found.data.validation.empty()) {
    data.other = open_source(found, found.data.validation, /*keep_broken=*/true);
    found.validation = training_split(*data.other, found.folder);
  } else {
    found.validation = first_split(*data.source, kValidationNames);
    found.test = test_split(*data.source, found.notes);
    if (found.validation.empty()) found.validation = std::exchange(found.test, "");
    if (found.validation == data.split) found.validation.clear();
  }
  data.validation_split = found.validation;
  return data;
}

void check_count(const DataFindings& found) {
  if (found.examples >= kFewest) return;
  throw Error(Exit::usage, found.folder,
              fmt::format("has {} images, too few to train and to validate on", found.examples));
}

// Reads the labels, and sets aside validation data if there is none.
void read_labels(const FoundSources& data, DataFindings& found) {
  const Source& source = *data.source;
  const size_t split = index_of(source, data.split);
  if (data.validation_split.empty()) slice(data.split, found);
  if (found.task != LabelTask::classify) {
    check_count(found);
    read_label_vectors(data.source, data.other, data.split, found);
    return;
  }
  refuse_targets(source, split, found.data.source);
  refuse_empty_split(source, split);
  if (!found.sliced) refuse_empty_split(*data.other, index_of(*data.other, data.validation_split));
  if (found.data.source == "image_folder")
    refuse_empty_classes(source, {data.split, data.validation_split, found.test}, found.folder);
  read_classes(source, *data.other, data.split, data.validation_split, found);
  check_count(found);
  divide_by_folds(data.source, data.split, found);
}

// The training images alone decide the preprocessing. Warns if it does not suit the validation
// images.
void warn_of_other_images(const SampledImages& training, const SampledImages& validation,
                          DataFindings& found) {
  if (training.encoded && validation.encoded) {
    if (training.channels == 1 && validation.channels != 1)
      found.warnings.emplace_back(
          "the training images are grey, but validation images are in color: check that both are "
          "of "
          "one kind");
    return;
  }
  const ValueBounds range = range_of_data(training);
  const double margin = (range.most - range.least) / 2;
  if (validation.type == training.type && validation.least >= range.least - margin &&
      validation.most <= range.most + margin)
    return;
  found.warnings.push_back(fmt::format(
      "validation images have values from {} to {}, but training images from {} to {}, by which "
      "both are scaled: check that both are stored alike",
      short_number(validation.least), short_number(validation.most), short_number(training.least),
      short_number(training.most)));
}

// Decodes a sample of the images.
void sample(const FoundSources& data, DataFindings& found) {
  const size_t split = index_of(*data.source, data.split);
  found.images = sample_images(*data.source, split, kSample);
  if (!found.sliced) {
    const size_t validation = index_of(*data.other, data.validation_split);
    const SampledImages others = sample_images(*data.other, validation, kValidationSample);
    warn_of_other_images(found.images, others, found);
    add_validation(found.images, others);
  }
  if (found.any_broken()) refuse_unreadable_classes(*data.source, split, found.folder);
  found.turned = found.images.turned > 0;
}

DataFindings inspect_checked(const std::string& folder, const LabelRequest& request) {
  DataFindings found;
  found.folder = folder;
  found.task = request.task;
  if (request.given())
    std::tie(found.data, found.labels) = labelled_csv(folder, request);
  else
    found.data = detect_one(folder);
  if (found.labels.multilabel) list_classes(found);
  const FoundSources data = open_data(found);
  find_broken_files({data.split, data.validation_split, found.test}, found);
  read_labels(data, found);
  const Dataset train(data.source, found.train, Place{folder});
  const Dataset validation(data.other, found.validation, Place{folder});
  found.train_examples = train.size();
  found.validation_examples = validation.size();
  sample(data, found);
  add_class_warnings(train, validation, found);
  if (found.images.deep > 0)
    found.warnings.push_back(deep_png_note(found.images.deep, found.images.tried));
  warn_of_repeated_images(*data.source, *data.other, found);
  if (request.given()) note_odd_cells(found);
  if (std::string note = note_of_other_labels(*data.source, found); !note.empty())
    found.notes.push_back(std::move(note));
  for (const std::string& name : data.source->splits()) {
    const bool used = name == data.split || name == data.validation_split || name == found.test;
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

DataFindings inspect_data(const std::string& given, const LabelRequest& request) {
  std::string folder = given;
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  check_folder(folder);
  try {
    return inspect_checked(folder, request);
  } catch (const Error& error) {
    if (!error.needs_place()) throw;
    throw Error(error.code(), folder, error.message());
  } catch (const fs::filesystem_error& error) {
    throw Error(Exit::usage, folder, error.code().message());
  }
}

}  // namespace bv
