#include "lib/init/labelled_csv.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "lib/init/found_source.h"
#include "lib/init/label_vectors.h"
#include "lib/init/unusable_data.h"
#include "lib/input/sources/common/folder_index.h"
#include "lib/input/sources/common/manifest/csv_layout.h"
#include "lib/input/sources/common/manifest/detect_csv.h"
#include "lib/input/sources/common/manifest/detect_manifest.h"
#include "lib/input/sources/common/manifest/manifest_file.h"
#include "lib/input/sources/common/manifest/plain_number.h"
#include "lib/util/error.h"
#include "lib/util/folder_entries.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr int64_t kMostClasses = 1000;   // that a config lists
constexpr int64_t kMostNumbers = 10000;  // numbers of classes, before those that occur are counted
constexpr const char* kTrainSplit = "train";  // all rows of a CSV file

std::string file_of(const DataKeys& keys) { return keys.at(0).second; }
std::string name_of(const std::string& file) {
  return std::filesystem::path(file).filename().string();
}

// Returns the names of the CSV files in a folder.
std::vector<std::string> csv_names(const std::string& folder) {
  std::vector<std::string> names;
  for_each_entry(folder, [&](const FolderEntry& entry) {
    if (entry.file && entry.name.ends_with(".csv") && !entry.name.starts_with("."))
      names.push_back(entry.name);
  });
  std::sort(names.begin(), names.end());
  return names;
}

[[noreturn]] void refuse_other_data(const std::string& folder) {
  std::vector<std::string> kinds;
  try {
    for (const DetectedData& data : detect_data(folder)) kinds.push_back(data.kind);
  } catch (const Error&) {
    // What is wrong with other data does not matter.
  }
  throw Error(Exit::usage, folder,
              fmt::format("has no CSV file, which --label and --task need{}; for other data write "
                          "the config yourself (docs/labels.md)",
                          kinds.empty() ? "" : ": it holds " + join(kinds, "; ")));
}

// Throws why none of the files can be used.
[[noreturn]] void refuse_files(const std::string& folder, const std::vector<std::string>& names,
                               const CsvLabels* chosen) {
  constexpr size_t kShown = 5;
  std::vector<Error> problems;
  for (const std::string& name : names) {
    const std::string why = list_problem(folder, name, chosen);
    if (!why.empty()) problems.emplace_back(Exit::usage, folder + "/" + name, why);
  }
  if (problems.empty()) throw Error(Exit::usage, folder, "its CSV files cannot be used");
  if (problems.size() == 1) throw problems[0];
  const size_t left_out = problems.size() - std::min(problems.size(), kShown);
  problems.erase(problems.end() - static_cast<std::ptrdiff_t>(left_out), problems.end());
  throw Error::all(Exit::usage, std::move(problems), left_out);
}

// Returns the column label or class of the first file that has one.
std::string usual_column(const std::string& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::string column = usual_label_column(folder, name); !column.empty()) return column;
  }
  refuse_files(folder, names, /*chosen=*/nullptr);
}

// Throws if a file whose name says that it is for training or validation cannot be used, although
// another one can: its rows would be missing.
void refuse_unused_splits(const std::string& folder, const std::vector<std::string>& names,
                          const CsvLabels& chosen, const DetectedData& data) {
  const auto split_of = [](const std::string& file) {
    return split_of_words(std::filesystem::path(file).stem().string());
  };
  if (split_of(file_of(data.train)).empty()) return;
  std::set<std::string> used = {name_of(file_of(data.train))};
  if (!data.validation.empty()) used.insert(name_of(file_of(data.validation)));
  for (const std::string& name : names) {
    const std::string split = split_of(name);
    if (used.contains(name) || (split != "train" && split != "val")) continue;
    const std::string why = list_problem(folder, name, &chosen);
    if (!why.empty()) throw Error(Exit::usage, folder + "/" + name, why);
  }
}

// Returns the width of the vector `labels` of the first row; 0 if that cannot be read.
int64_t width_of_labels(const Source& source) {
  try {
    return source.read_values(0, 0).at("labels").numel();
  } catch (const Error&) {
    return 0;  // the row is broken
  }
}

// What the cells of a column with several classes hold.
struct ColumnClasses {
  std::set<std::string> names;  // that occur
  bool yes_or_no = false;       // each cell is 0, 1 or empty
};

ColumnClasses classes_in(const DataFindings& found, const DataKeys& keys) {
  const auto refuse_more = [&](int64_t count, int64_t most, const char* what) {
    if (count <= most) return;
    throw Error(Exit::usage, file_of(keys),
                fmt::format("has {} {}, more than the {} of a config that bvtrain init writes; "
                            "write it yourself, with `multilabel: true` (docs/labels.md)",
                            human_count(count), what, human_count(most)));
  };
  const auto source = open_source(found, keys, /*keep_broken=*/true);
  const std::vector<std::string> names = source->class_names();
  refuse_more(std::ssize(names), kMostClasses, "classes");
  if (names.empty()) refuse_more(width_of_labels(*source), kMostNumbers, "class numbers");
  const LabelVectors vectors =
      read_vectors(found, keys, source, kTrainSplit, VectorStatistics::counts);
  ColumnClasses classes;
  for (size_t c = 0; c < vectors.counts.size(); ++c) {
    if (vectors.counts[c] > 0)
      classes.names.insert(c < names.size() ? names[c] : fmt::format("{}", c));
  }
  refuse_more(std::ssize(classes.names), kMostClasses, "classes");
  classes.yes_or_no = names.empty() && vectors.counts.size() <= 2 && vectors.several == 0;
  return classes;
}

// Returns the classes that occur in the training and validation files.
std::set<std::string> classes_in_all(const DataFindings& found, std::set<std::string> training) {
  if (!found.data.validation.empty())
    training.merge(classes_in(found, found.data.validation).names);
  return training;
}

// Returns the names sorted; if they are numbers, in numeric order.
std::vector<std::string> sorted_names(const std::set<std::string>& names) {
  std::vector<std::string> sorted(names.begin(), names.end());
  const bool numbers = std::all_of(sorted.begin(), sorted.end(), [](const std::string& name) {
    return name.find_first_not_of("0123456789") == std::string::npos;
  });
  if (numbers) {
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.size() < b.size(); });
  }
  return sorted;
}

// Returns the rows of a file that name an image which `seen` has already, and adds their images.
int64_t repeated_images(const Source& source, std::set<std::string>& seen) {
  const size_t split = index_of(source, kTrainSplit);
  int64_t repeated = 0;
  for (int64_t i = 0; i < source.size(split); ++i) {
    const auto files = source.files_of(split, i);
    if (!files || files->empty()) continue;
    repeated += !seen.insert(files->at(0)).second;
  }
  return repeated;
}

// Returns whether a cell of the column fulfils `condition`.
template <class Condition>
bool any_cell(const std::string& file, const std::string& column, const Condition& condition) {
  ManifestFile rows(file);
  std::vector<CsvCell> cells;
  std::optional<char> delimiter;
  std::optional<size_t> at;
  const auto length = [&](std::string_view text, bool last) {
    if (!delimiter) delimiter = guess_delimiter(text);
    return read_csv_row(text, *delimiter, last, cells);
  };
  while (rows.next(length)) {
    if (at && *at < cells.size() && condition(cells[*at].text)) return true;
    for (size_t i = 0; !at && i < cells.size(); ++i) {
      if (trim(cells[i].text) == column) at = i;
    }
  }
  return false;
}

// Whether a cell has one of the characters that separate several labels.
bool has_separator(std::string_view cell) { return cell.find_first_of(";|") != cell.npos; }
bool has_point(std::string_view cell) { return plain_number(cell).kind == PlainNumber::Kind::real; }

}  // namespace

std::pair<DetectedData, LabelKeys> labelled_csv(const std::string& folder,
                                                const LabelRequest& request) {
  check_request(request);
  const std::vector<std::string> names = csv_names(folder);
  if (names.empty()) refuse_other_data(folder);
  LabelKeys labels{.columns = request.columns};
  if (request.task != LabelTask::classify && labels.columns.empty())
    labels.columns = {usual_column(folder, names)};
  labels.list = request.task == LabelTask::regress || labels.columns.size() > 1;
  labels.multilabel = request.task == LabelTask::multilabel && !labels.list;
  const CsvLabels chosen{labels.columns, labels.list, labels.multilabel};
  const auto keys = [&](const std::string& file, const std::string& head) {
    return csv_data_keys(file, head, &chosen);
  };
  auto found = detect_manifest(folder, ".csv", "CSV file", keys);
  if (!found) refuse_files(folder, names, &chosen);
  refuse_unused_splits(folder, names, chosen, *found);
  found->source = "csv";
  return {*std::move(found), labels};
}

// The second pass finds names that only seem to be in a file: without `;` and `|` in any cell, the
// source has divided names at their spaces. With the list of names it does not.
void list_classes(DataFindings& found) {
  // Numbers such as 0.5 or 1.0 say how much an image belongs to one class.
  const bool real = any_cell(file_of(found.data.train), found.labels.columns.at(0), has_point);
  const ColumnClasses training = real ? ColumnClasses() : classes_in(found, found.data.train);
  if (real || training.yes_or_no) {
    found.labels.multilabel = false;
    found.labels.list = true;
    return;
  }
  const bool spaces = std::any_of(training.names.begin(), training.names.end(),
                                  [](const auto& name) { return name.find(' ') != name.npos; });
  found.labels.classes =
      sorted_names(spaces ? training.names : classes_in_all(found, training.names));
  const std::set<std::string> listed = classes_in(found, found.data.train).names;
  found.labels.classes = sorted_names(classes_in_all(found, listed));
}

void note_odd_rows(DataFindings& found) {
  std::set<std::string> images;
  const bool cells = found.labels.multilabel;
  const auto train = open_source(found, found.data.train, /*keep_broken=*/true);
  if (const int64_t rows = repeated_images(*train, images); rows > 0) {
    found.warnings.push_back(fmt::format(
        "{}: {} {} an image that an earlier row names; each row counts as an image, so training "
        "and validation data may share images{}",
        file_of(found.data.train), counted(rows, "row"), rows == 1 ? "names" : "name",
        cells ? "; write all classes of an image into one cell, such as cat;dog" : ""));
  }
  if (!found.data.validation.empty()) {
    std::set<std::string> own;
    const auto other = open_source(found, found.data.validation, /*keep_broken=*/true);
    repeated_images(*other, own);
    const auto shared = std::count_if(own.begin(), own.end(),
                                      [&](const auto& image) { return images.contains(image); });
    if (shared > 0) {
      found.warnings.push_back(fmt::format("{} has {} that {} has too",
                                           file_of(found.data.validation), counted(shared, "image"),
                                           file_of(found.data.train)));
    }
  }
  const bool spaces =
      std::any_of(found.labels.classes.begin(), found.labels.classes.end(),
                  [](const std::string& name) { return name.find(' ') != std::string::npos; });
  if (found.task == LabelTask::multilabel && !cells && found.labels.columns.size() == 1) {
    found.notes.push_back(fmt::format("'{}' holds {}, so it is a class that an image has or not",
                                      found.labels.columns[0],
                                      found.soft_labels ? "numbers from 0 to 1" : "0 and 1"));
  }
  if (cells && !spaces &&
      !any_cell(file_of(found.data.train), found.labels.columns.at(0), has_separator)) {
    found.notes.push_back(
        fmt::format("no cell of '{}' has a `;` or `|`, so white space separates its classes",
                    found.labels.columns.at(0)));
  }
}

}  // namespace bv
