#include "lib/init/unusable_data.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

#include "lib/init/sampled_images.h"
#include "lib/input/detect_data.h"
#include "lib/input/image/image_suffix.h"
#include "lib/input/sources/common/folder_index.h"
#include "lib/input/sources/common/index_cache.h"
#include "lib/input/sources/common/manifest/csv_layout.h"
#include "lib/input/sources/common/manifest/csv_row.h"
#include "lib/input/sources/common/manifest/manifest.h"
#include "lib/input/sources/common/manifest/manifest_file.h"
#include "lib/util/error.h"
#include "lib/util/folder_entries.h"
#include "lib/util/printable.h"
#include "lib/util/regular_file.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr size_t kShownEmpty = 20;

struct FolderContent {
  int64_t entries = 0, images = 0;
  std::vector<std::string> folders;
};

FolderContent list_content(const std::string& folder) {
  FolderContent content;
  for_each_entry(folder, [&](const FolderEntry& entry) {
    if (entry.name.starts_with(".")) return;
    ++content.entries;
    if (entry.folder)
      content.folders.push_back(entry.name);
    else
      content.images += has_image_suffix(entry.name);
  });
  std::sort(content.folders.begin(), content.folders.end());
  return content;
}

// Returns up to `limit` of the folders `names` in `folder` that contain data themselves.
std::vector<std::string> inner_data(const std::string& folder,
                                    const std::vector<std::string>& names, size_t limit) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (found.size() == limit) break;
    const std::string inner = folder + "/" + name;
    try {
      if (!detect_data(inner).empty()) found.push_back(inner);
    } catch (const Error&) {
      // This folder's data cannot be used. The user may mean another folder.
    }
  }
  return found;
}

bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

// Returns what `folder` holds in formats that other libraries read; "" if it is nothing known.
std::string foreign_data(const std::string& folder) {
  const auto has = [&](const char* name) { return is_file(folder + "/" + name); };
  if (has("dataset_dict.json") || (has("dataset_info.json") && has("state.json")))
    return "is a data set of Hugging Face, as save_to_disk() writes it";
  if (has("batches.meta") && has("data_batch_1")) return "holds CIFAR-10 for Python";
  if (has("meta") && has("train") && has("test")) return "holds CIFAR-100 for Python";
  for (const std::string& inner : {folder, folder + "/data"}) {
    if (!is_folder(inner)) continue;
    bool parquet = false;
    for_each_entry(inner, [&](const FolderEntry& entry) {
      parquet |= entry.file && entry.name.ends_with(".parquet");
    });
    if (parquet) return "holds parquet files, which bvtrain does not read";
  }
  return "";
}

// Returns where the image that a CSV file in `folder` names may be, if it is not in `folder`.
std::string elsewhere(const std::string& folder, const RowFile& image) {
  for (const std::string& inner : list_content(folder).folders) {
    if (!is_file(folder + "/" + inner + "/" + image.name)) continue;
    return fmt::format("; it is in {0}/: write a config with `name: csv` and `folder: {1}/{0}`",
                       printable(inner), printable(folder));
  }
  return "";
}

// Returns the first bytes of a file. Throws Error if it cannot be read.
std::string list_text_head(const std::string& folder, const std::string& name) {
  constexpr size_t kHead = size_t{64} << 10;
  std::string head(kHead, '\0');
  head.resize(RegularFile(folder + "/" + name).read(head.data(), head.size(), 0));
  return head;
}

// The header of a CSV file, and the first row after it.
struct ListHead {
  CsvLayout layout;
  std::string row;
};

// Throws RowFault, and Error if the file cannot be read.
ListHead read_list_head(const std::string& folder, const std::string& name,
                        const CsvLabels* chosen) {
  const std::string head = without_bom(list_text_head(folder, name));
  const char delimiter = guess_delimiter(head);
  std::vector<CsvCell> cells;
  const size_t length = read_csv_row(head, delimiter, /*last=*/true, cells);
  std::vector<std::string> remarks;
  return {csv_layout(cells, delimiter, settings_for(folder, chosen), remarks), head.substr(length)};
}

// Says that a file has no column with the classes, and how to choose another column.
std::string no_label_text(const CsvLayout& layout) {
  std::vector<std::string> others;
  for (const CsvColumn& column : layout.columns)
    if (column.role == CsvRole::feature) others.push_back(column.name);
  if (others.empty()) return "has no column 'label', and no other column with labels";
  return fmt::format(
      "has no column 'label'; its other column{}: choose with --label {}; add --task regress if it "
      "holds numbers, or --task multilabel if an image may have several classes",
      others.size() == 1 ? " is " + others[0] : "s are " + short_list(others, /*counted=*/false),
      shell_word(others[0]));
}

// Says what to do with a class folder that has no images.
std::string empty_class_text(const std::string& folder) {
  const std::vector<std::string> inner = list_folders(folder);
  const bool deeper = std::any_of(inner.begin(), inner.end(), [&](const std::string& name) {
    return count_images(folder + "/" + name) > 0;
  });
  return deeper ? "the images of this class are in subfolders: move them into the class "
                  "folder itself"
                : "this class folder has no JPEG, PNG or WebP images: add images to it, "
                  "or move it elsewhere";
}

}  // namespace

std::string list_problem(const std::string& folder, const std::string& name,
                         const CsvLabels* chosen) {
  try {
    const std::string bytes = list_text_head(folder, name);
    if (std::string encoding =
            other_encoding({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
        !encoding.empty())
      return encoding;
    const auto [layout, row] = read_list_head(folder, name, chosen);
    if (!chosen && !layout.column_of(CsvRole::label)) return no_label_text(layout);
    if (row.empty()) return "has no rows";
    std::vector<CsvCell> cells;
    read_csv_row(row, layout.delimiter, /*last=*/true, cells);
    check_cell_count(cells, layout, row);
    const CsvCell& path = cells[layout.column_of(CsvRole::path).value()];
    const RowFile image = row_file(path.text, folder, path.at);
    if (is_file(image.path)) return "";
    return fmt::format("names '{}', which is not in {}{}", printable(image.name), folder,
                       elsewhere(folder, image));
  } catch (const RowFault& fault) {
    return chosen ? fault.what() : fmt::format("cannot be used: {}", fault.what());
  } catch (const Error&) {
    return "";  // it cannot be read
  }
}

std::string usual_label_column(const std::string& folder, const std::string& name) {
  try {
    const CsvLayout layout = read_list_head(folder, name, /*chosen=*/nullptr).layout;
    const auto label = layout.column_of(CsvRole::label);
    return label ? layout.columns[*label].name : "";
  } catch (const std::runtime_error&) {
    return "";  // a RowFault or an Error: it is some other table
  }
}

std::string unknown_folder(const std::string& folder) {
  const FolderContent content = list_content(folder);
  if (content.entries == 0) return "is empty";
  const std::vector<std::string> inner = inner_data(folder, content.folders, /*limit=*/2);
  if (inner.size() == 1) return fmt::format("holds no data itself (did you mean '{}'?)", inner[0]);
  if (inner.size() == 2) {
    std::vector<std::string> splits;  // the usual names of these folders
    for (const std::string& path : inner)
      splits.push_back(split_of_words(path.substr(folder.size() + 1)));
    const bool differ = !splits[0].empty() && !splits[1].empty() && splits[0] != splits[1];
    return fmt::format(
        "holds no data itself, but several of its folders do, such as '{}' and "
        "'{}'{}",
        inner[0], inner[1],
        differ
            ? fmt::format(": rename them to '{}' and '{}' if they are splits", splits[0], splits[1])
            : ": if they are classes, move their images directly into them");
  }
  if (content.images > 0) {
    return fmt::format(
        "has {} image{}, but no class folders: move the images of each class into a separate "
        "folder, {}/<class>/*.jpg{}",
        human_count(content.images), content.images == 1 ? "" : "s", folder,
        unused_list_hint(folder));
  }
  if (const std::string foreign = foreign_data(folder); !foreign.empty())
    return foreign + ": docs/data.md says in 'Data in other formats' how to convert such data";
  return "has no data that can be trained on; expected " + join(detectable_data(), ", or ") +
         unused_list_hint(folder);
}

std::string unused_list_hint(const std::string& folder) {
  constexpr size_t kMost = 3;
  std::string hint;
  std::vector<std::string> files = list_files(folder, kCsvSuffixes);
  files.resize(std::min(files.size(), kMost));
  for (const std::string& name : files) {
    const std::string why = list_problem(folder, name, /*chosen=*/nullptr);
    if (!why.empty()) hint += fmt::format("; {} {}", printable(name), why);
  }
  return hint;
}

void refuse_empty_split(const Source& source, size_t split) {
  const at::Tensor labels = source.labels(split);
  if (!labels.defined() || labels.ne(int64_t{Source::kNoLabel}).any().item<bool>()) return;
  // The file name shows which of two npz files is empty: both have a split 'train'.
  throw Error(
      Exit::usage, source.labels_file(split),
      fmt::format("split '{}' has no images{}", source.splits().at(split),
                  source.file_notes(split).inner_folders > 0
                      ? ", but folders in its class folders: images must be directly in the "
                        "class folders"
                      : ""));
}

void refuse_targets(const Source& source, size_t split, const std::string& name) {
  if ((name != "csv" && name != "jsonl") || source.labels(split).defined()) return;
  throw Error(Exit::usage, source.labels_file(split),
              fmt::format("has labels that are not integers, which are regression targets: {}",
                          name == "csv" ? "add --task regress"
                                        : "write the config yourself, with `name: jsonl` "
                                          "(docs/labels.md)"));
}

void refuse_empty_classes(const Source& source, const std::vector<std::string>& splits,
                          const std::string& folder) {
  const std::vector<std::string> all = source.splits();
  std::vector<Error> problems;
  size_t more = 0;
  for (size_t split = 0; split < all.size(); ++split) {
    if (std::find(splits.begin(), splits.end(), all[split]) == splits.end()) continue;
    const at::Tensor labels = source.labels(split);
    const int64_t* values = labels.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < labels.size(0); ++i) {
      if (values[i] != Source::kNoLabel) continue;
      if (problems.size() == kShownEmpty) {
        ++more;
        continue;
      }
      std::string name = source.describe(split, i);  // with a '/' at the end
      name.pop_back();
      const std::string path = folder + "/" + name;
      problems.emplace_back(Exit::usage, path, empty_class_text(path));
    }
  }
  if (!problems.empty()) throw Error::all(Exit::usage, std::move(problems), more);
}

void refuse_unreadable_classes(const Source& source, size_t split, const std::string& folder) {
  const at::Tensor labels = source.labels(split);
  if (!labels.defined() || source.is_array()) return;
  std::map<int64_t, std::vector<int64_t>> examples;  // of each class
  for (int64_t i = 0; i < labels.size(0); ++i) {
    const int64_t label = labels.const_data_ptr<int64_t>()[i];
    if (label >= 0) examples[label].push_back(i);
  }
  const std::vector<std::pair<int64_t, std::vector<int64_t>>> classes(examples.begin(),
                                                                      examples.end());
  std::vector<std::string> first(classes.size());  // the problem of the first image
  const auto look = [&](size_t at) {
    for (const int64_t i : classes[at].second) {
      const std::string problem = decoding_problem(source, split, i);
      if (first[at].empty()) first[at] = problem;
      if (!problem.empty()) continue;
      first[at].clear();
      return;
    }
  };
  scan_files(classes.size(), "looking for readable images", look, "classes");
  const std::vector<std::string> names = source.class_names();
  std::vector<Error> problems;
  size_t more = 0;
  for (size_t at = 0; at < classes.size(); ++at) {
    const int64_t label = classes[at].first;
    if (first[at].empty()) continue;
    if (problems.size() == kShownEmpty) {
      ++more;
      continue;
    }
    problems.emplace_back(
        Exit::usage, folder,
        fmt::format("no image of the class '{}' can be read ({}): convert or replace the images, "
                    "or remove the class",
                    label < std::ssize(names) ? printable(names[label]) : fmt::format("{}", label),
                    first[at]));
  }
  if (!problems.empty()) throw Error::all(Exit::usage, std::move(problems), more);
}

}  // namespace bv
