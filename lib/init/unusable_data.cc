#include "lib/init/unusable_data.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <utility>

#include "lib/input/detect_data.h"
#include "lib/input/image/image_suffix.h"
#include "lib/input/sources/common/manifest/csv_layout.h"
#include "lib/input/sources/common/manifest/csv_row.h"
#include "lib/util/error.h"
#include "lib/util/folder_entries.h"
#include "lib/util/regular_file.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr size_t kShownEmpty = 20;

struct FolderContent {
  int64_t entries = 0, images = 0;
  std::vector<std::string> folders, csv_files;
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
    if (entry.file && entry.name.ends_with(".csv")) content.csv_files.push_back(entry.name);
  });
  std::sort(content.folders.begin(), content.folders.end());
  std::sort(content.csv_files.begin(), content.csv_files.end());
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

// Returns whether a CSV file has a column that names images, but none with their labels.
bool is_unlabelled_list(const std::string& folder, const std::string& name) {
  constexpr size_t kHead = size_t{64} << 10;
  try {
    std::string head(kHead, '\0');
    head.resize(RegularFile(folder + "/" + name).read(head.data(), head.size(), 0));
    head = without_bom(std::move(head));
    const char delimiter = guess_delimiter(head);
    std::vector<CsvCell> cells;
    read_csv_row(head, delimiter, /*last=*/true, cells);
    CsvSettings settings;
    settings.folder = folder;
    std::vector<std::string> remarks;
    return !csv_layout(cells, delimiter, settings, remarks).column_of(CsvRole::label);
  } catch (const RowFault&) {
    return false;  // some other table
  } catch (const Error&) {
    return false;  // it cannot be read
  }
}

}  // namespace

std::string unknown_folder(const std::string& folder) {
  const FolderContent content = list_content(folder);
  if (content.entries == 0) return "is empty";
  const std::vector<std::string> inner = inner_data(folder, content.folders, /*limit=*/2);
  if (inner.size() == 1) return fmt::format("holds no data itself (did you mean '{}'?)", inner[0]);
  if (inner.size() == 2) {
    return fmt::format("holds no data itself, but several of its folders do, such as '{}' and '{}'",
                       inner[0], inner[1]);
  }
  if (content.images > 0) {
    return fmt::format(
        "has {} image{}, but no class folders: move the images of each class into a separate "
        "folder, {}/<class>/*.jpg{}",
        human_count(content.images), content.images == 1 ? "" : "s", folder,
        unlabelled_list_hint(folder));
  }
  return "has no data that can be trained on; expected " + join(detectable_data(), ", or ") +
         unlabelled_list_hint(folder);
}

std::string unlabelled_list_hint(const std::string& folder) {
  for (const std::string& name : list_content(folder).csv_files) {
    if (!is_unlabelled_list(folder, name)) continue;
    return fmt::format(
        "; {} has no column 'label': give this name to the column with the classes or, to predict "
        "numbers, write a config with `task: regress` (docs/labels.md)",
        name);
  }
  return "";
}

void refuse_empty_split(const Source& source, size_t split) {
  const at::Tensor labels = source.labels(split);
  if (!labels.defined() || labels.ne(int64_t{Source::kNoLabel}).any().item<bool>()) return;
  // The file name shows which of two npz files is empty: both have a split 'train'.
  throw Error(Exit::usage, source.labels_file(split),
              fmt::format("split '{}' has no images", source.splits().at(split)));
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
      problems.emplace_back(Exit::usage, folder + "/" + name,
                            "this class folder has no JPEG, PNG or WebP images: delete it, move it "
                            "elsewhere, or add images");
    }
  }
  if (!problems.empty()) throw Error::all(Exit::usage, std::move(problems), more);
}

}  // namespace bv
