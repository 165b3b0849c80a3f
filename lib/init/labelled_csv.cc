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
#include "lib/input/image/image_suffix.h"
#include "lib/input/sources/common/folder_index.h"
#include "lib/input/sources/common/manifest/csv_layout.h"
#include "lib/input/sources/common/manifest/detect_csv.h"
#include "lib/input/sources/common/manifest/detect_manifest.h"
#include "lib/input/sources/common/manifest/manifest_file.h"
#include "lib/input/sources/common/manifest/plain_number.h"
#include "lib/util/error.h"
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
    // detect_manifest() looks for files of the next suffix only if none of these can be used.
    if (suffix_of(name) != suffix_of(file_of(data.train))) continue;
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

void refuse_more(const DataKeys& keys, int64_t count, int64_t most, const char* what) {
  if (count <= most) return;
  throw Error(Exit::usage, file_of(keys),
              fmt::format("has {} {}, more than the {} of a config that bvtrain init writes; "
                          "write it yourself, with `multilabel: true` (docs/labels.md)",
                          human_count(count), what, human_count(most)));
}

// Reads a file as a source without the key `classes` does: if no cell has a `;` or `|`, white space
// divides the cells.
ColumnClasses classes_in(const DataFindings& found, const DataKeys& keys) {
  const auto source = open_source(found, keys, /*keep_broken=*/true);
  const std::vector<std::string> names = source->class_names();
  refuse_more(keys, std::ssize(names), kMostClasses, "classes");
  if (names.empty()) refuse_more(keys, width_of_labels(*source), kMostNumbers, "class numbers");
  const LabelVectors vectors =
      read_vectors(found, keys, source, kTrainSplit, VectorStatistics::counts);
  ColumnClasses classes;
  for (size_t c = 0; c < vectors.counts.size(); ++c) {
    if (vectors.counts[c] > 0)
      classes.names.insert(c < names.size() ? names[c] : fmt::format("{}", c));
  }
  refuse_more(keys, std::ssize(classes.names), kMostClasses, "classes");
  classes.yes_or_no = names.empty() && vectors.counts.size() <= 2 && vectors.several == 0;
  return classes;
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

// Calls visit() with each cell of a column.
template <class Visit>
void for_each_cell(const std::string& file, const std::string& column, const Visit& visit) {
  ManifestFile rows(file);
  std::vector<CsvCell> cells;
  std::optional<char> delimiter;
  std::optional<size_t> at;
  const auto length = [&](std::string_view text, bool last) {
    if (!delimiter) delimiter = guess_delimiter(text);
    return read_csv_row(text, *delimiter, last, cells);
  };
  while (rows.next(length)) {
    if (at && *at < cells.size()) visit(std::string_view(cells[*at].text));
    for (size_t i = 0; !at && i < cells.size(); ++i) {
      if (trim(cells[i].text) == column) at = i;
    }
  }
}

// Returns whether the cells of a column are numbers, and one of them has a decimal point. Cells may
// be empty.
bool holds_fractions(const std::string& file, const std::string& column) {
  bool numbers = true, points = false;
  for_each_cell(file, column, [&](std::string_view cell) {
    const PlainNumber::Kind kind = plain_number(cell).kind;
    numbers &= cell.empty() || kind != PlainNumber::Kind::none;
    points |= kind == PlainNumber::Kind::real;
  });
  return numbers && points;
}

// Returns whether a cell of a column has one of the characters that separate several labels.
bool holds_separators(const std::string& file, const std::string& column) {
  bool any = false;
  for_each_cell(file, column, [&](std::string_view cell) {
    any |= cell.find_first_of(";|") != std::string_view::npos;
  });
  return any;
}

// Returns the classes of a file if only `;` and `|` divide its cells.
std::set<std::string> separated_classes(const DataKeys& keys, const std::string& column) {
  std::set<std::string> names;
  for_each_cell(file_of(keys), column, [&](std::string_view cell) {
    for (const std::string_view name : several_labels(cell, /*bars=*/true)) names.emplace(name);
  });
  refuse_more(keys, std::ssize(names), kMostClasses, "classes");
  return names;
}

bool has_spaces(const std::string& name) { return name.find_first_of(" \t") != std::string::npos; }

}  // namespace

std::pair<DetectedData, LabelKeys> labelled_csv(const std::string& folder,
                                                const LabelRequest& request) {
  check_request(request);
  const std::vector<std::string> names = list_files(folder, kCsvSuffixes);
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
  auto found = detect_manifest(folder, kCsvSuffixes, "CSV file", keys);
  if (!found) refuse_files(folder, names, &chosen);
  refuse_unused_splits(folder, names, chosen, *found);
  found->source = "csv";
  return {*std::move(found), labels};
}

// If a class name has a space, only `;` and `|` separate classes, in both files, and the classes
// are those of separated_classes(). classes_in() does not read a validation file without new
// classes: without a `;` in the file, it would refuse a cell such as "Smith, John".
void list_classes(DataFindings& found) {
  const DataKeys &train = found.data.train, &validation = found.data.validation;
  const std::string& column = found.labels.columns.at(0);
  // Numbers such as 0.5 or 1.0 say how much an image belongs to one class.
  const bool fractions = holds_fractions(file_of(train), column);
  const ColumnClasses training = fractions ? ColumnClasses() : classes_in(found, train);
  if (fractions || training.yes_or_no) {
    found.labels.multilabel = false;
    found.labels.list = true;
    return;
  }
  std::set<std::string> names = training.names;
  const auto spaces = [&] { return std::any_of(names.begin(), names.end(), has_spaces); };
  const auto all_known = [&] {
    const std::set<std::string> others = separated_classes(validation, column);
    return std::includes(names.begin(), names.end(), others.begin(), others.end());
  };
  if (!validation.empty()) {
    if (!spaces() || !all_known()) names.merge(classes_in(found, validation).names);
    if (spaces()) {
      names = separated_classes(train, column);
      names.merge(separated_classes(validation, column));
    }
  }
  found.labels.classes = sorted_names(names);
}

void note_odd_cells(DataFindings& found) {
  const bool cells = found.labels.multilabel;
  const bool spaces =
      std::any_of(found.labels.classes.begin(), found.labels.classes.end(), has_spaces);
  if (found.task == LabelTask::multilabel && !cells && found.labels.columns.size() == 1) {
    found.notes.push_back(fmt::format("'{}' holds {}, so it is a class that an image has or not",
                                      found.labels.columns[0],
                                      found.soft_labels ? "numbers from 0 to 1" : "0 and 1"));
  }
  if (cells && !spaces &&
      !holds_separators(file_of(found.data.train), found.labels.columns.at(0))) {
    found.notes.push_back(
        fmt::format("no cell of '{}' has a `;` or `|`, so white space separates its classes",
                    found.labels.columns.at(0)));
  }
}

}  // namespace bv
