#include "lib/input/sources/common/manifest/detect_manifest.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <vector>

#include "lib/input/sources/common/folder_index.h"
#include "lib/util/error.h"
#include "lib/util/folder_entries.h"
#include "lib/util/regular_file.h"

namespace bv {
namespace {

std::string head_of_file(const std::string& file) {
  constexpr size_t kHead = size_t{64} << 10;
  const RegularFile opened(file);
  std::string head(kHead, '\0');
  head.resize(opened.read(head.data(), head.size(), 0));
  if (head.size() == kHead) head.resize(head.rfind('\n') + 1);
  if (head.starts_with("\xEF\xBB\xBF")) head.erase(0, 3);
  return head;
}

std::string name_of_file(const std::string& file) {
  return std::filesystem::path(file).filename().string();
}

}  // namespace

std::optional<DetectedData> detect_manifest(const std::string& folder, const std::string& suffix,
                                            const std::string& kind, const ManifestKeys& keys) {
  std::vector<std::string> files;
  for_each_entry(folder, [&](const FolderEntry& entry) {
    if (entry.file && entry.name.ends_with(suffix) && !entry.name.starts_with("."))
      files.push_back(folder + "/" + entry.name);
  });
  std::sort(files.begin(), files.end());
  std::vector<std::pair<std::string, DataKeys>> found;
  for (const std::string& file : files) {
    if (auto of_file = keys(file, head_of_file(file))) found.emplace_back(file, *of_file);
  }
  if (found.empty()) return std::nullopt;
  if (found.size() == 1) {
    DetectedData data{kind, found[0].second};
    if (files.size() > 1) data.notes = {"taken: " + name_of_file(found[0].first)};
    return data;
  }
  std::map<std::string, const std::pair<std::string, DataKeys>*> splits;
  for (const auto& one : found)
    splits[split_of_words(std::filesystem::path(one.first).stem().string())] = &one;
  if (splits.size() < found.size() || splits.contains("") || !splits.contains("train")) {
    throw Error(Exit::usage, folder,
                fmt::format("holds several {0} files that name images, and their names do not say "
                            "which are for training: expected train{0} and val{0} or test{0}",
                            suffix));
  }
  const std::string validation = splits.contains("val") ? "val" : "test";
  DetectedData data{kind + "s", splits["train"]->second, splits[validation]->second};
  data.notes = {"training: " + name_of_file(splits["train"]->first),
                "validation: " + name_of_file(splits[validation]->first)};
  if (splits.size() > 2) data.notes.push_back("not used: " + name_of_file(splits["test"]->first));
  return data;
}

}  // namespace bv
