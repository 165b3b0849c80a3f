#include "lib/input/sources/common/manifest/detect_manifest.h"

#include <filesystem>
#include <map>
#include <vector>

#include "lib/input/image/image_suffix.h"
#include "lib/input/sources/common/folder_index.h"
#include "lib/util/error.h"
#include "lib/util/regular_file.h"
#include "lib/util/text.h"

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

using FoundManifests = std::vector<std::pair<std::string, DataKeys>>;

std::string split_of_file(const std::string& file) {
  return split_of_words(std::filesystem::path(file).stem().string());
}

// Throws that the names of these files do not say what each is for.
[[noreturn]] void refuse_names(const std::string& folder, const FoundManifests& found) {
  const std::string suffix = suffix_of(found[0].first);
  std::vector<std::string> names, unnamed;  // unnamed: without the name of a split
  for (const auto& [file, keys] : found) {
    names.push_back(name_of_file(file));
    if (split_of_file(file).empty()) unnamed.push_back(names.back());
  }
  const bool clear = !unnamed.empty() && unnamed.size() < names.size();
  throw Error(
      Exit::usage, folder,
      fmt::format("holds several {0} files that name images: {1}; expected train{0} and val{0} or "
                  "test{0}: rename these files, or move {2} elsewhere",
                  suffix, short_list(names, /*counted=*/false),
                  clear ? short_list(unnamed, /*counted=*/false) : "the others"));
}

}  // namespace

std::optional<DetectedData> detect_manifest(const std::string& folder,
                                            std::span<const std::string_view> suffixes,
                                            const std::string& kind, const ManifestKeys& keys) {
  std::vector<std::string> files;
  FoundManifests found;
  for (size_t i = 0; i < suffixes.size() && found.empty(); ++i) {
    files = list_files(folder, suffixes.subspan(i, 1));
    for (const std::string& name : files) {
      const std::string file = folder + "/" + name;
      if (auto of_file = keys(file, head_of_file(file))) found.emplace_back(file, *of_file);
    }
  }
  if (found.empty()) return std::nullopt;
  if (found.size() == 1) {
    DetectedData data{kind, found[0].second};
    if (files.size() > 1) data.notes = {"taken: " + name_of_file(found[0].first)};
    return data;
  }
  std::map<std::string, const std::pair<std::string, DataKeys>*> splits;
  for (const auto& one : found) splits[split_of_file(one.first)] = &one;
  if (splits.size() < found.size() || splits.contains("") || !splits.contains("train"))
    refuse_names(folder, found);
  const std::string validation = splits.contains("val") ? "val" : "test";
  DetectedData data{kind + "s", splits["train"]->second, splits[validation]->second};
  data.notes = {"training: " + name_of_file(splits["train"]->first),
                "validation: " + name_of_file(splits[validation]->first)};
  if (splits.size() > 2) data.notes.push_back("not used: " + name_of_file(splits["test"]->first));
  return data;
}

}  // namespace bv
