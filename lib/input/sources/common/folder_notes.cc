#include "lib/input/sources/common/folder_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "lib/input/image/image_suffix.h"
#include "lib/input/sources/common/folder_index.h"
#include "lib/util/error.h"
#include "lib/util/folder_entries.h"
#include "lib/util/printable.h"

namespace bv {

void note_unused_list(const std::string& folder, std::vector<std::string>& remarks) {
  for (const char* list : {"metadata.csv", "metadata.jsonl"}) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(folder + "/" + list, ignored)) continue;
    remarks.push_back(
        fmt::format("{}/{} is not read: the labels come from the folder names. The source {} "
                    "reads such lists",
                    folder, list, std::string_view(list).substr(9)));
  }
}

void note_hidden_folders(const std::string& folder, std::vector<std::string>& remarks) {
  for_each_entry(folder, [&](const FolderEntry& entry) {
    const std::string path = folder + "/" + entry.name;
    if (!entry.name.starts_with('.') || !entry.folder) return;
    try {
      if (count_images(path) == 0) return;
    } catch (const Error&) {
      return;  // it cannot be read
    }
    remarks.push_back(
        fmt::format("the images in {} were ignored, because the name of the folder begins "
                    "with a dot",
                    printable(path)));
  });
}

void note_dead_links(const std::string& folder, std::vector<std::string>& remarks) {
  std::vector<std::string> dead;
  for_each_entry(folder, [&](const FolderEntry& entry) {
    const bool leads_nowhere = entry.link && !entry.folder && !entry.file;
    if (leads_nowhere && !entry.name.starts_with('.') && !has_image_suffix(entry.name))
      dead.push_back(entry.name);
  });
  if (dead.empty()) return;
  const std::string first = printable(folder + "/" + *std::min_element(dead.begin(), dead.end()));
  remarks.push_back(dead.size() == 1
                        ? fmt::format("the link {} leads nowhere and was ignored", first)
                        : fmt::format("{} links that lead nowhere, such as {}, were ignored",
                                      dead.size(), first));
}

}  // namespace bv
