#include "lib/init/folder_config.h"

#include <filesystem>
#include <vector>

#include "lib/config/load_config.h"
#include "lib/init/yaml_text.h"
#include "lib/input/detect_data.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Returns the key `data` and its section, with all splits.
std::string section_of(const std::string& source, const DataKeys& keys, const std::string& indent) {
  std::string yaml = fmt::format("data:\n{0}  name: {1}\n{0}  split: all\n", indent, source);
  for (const auto& [key, value] : keys)
    yaml += fmt::format("{}  {}: {}\n", indent, key, yaml_text(value));
  return yaml;
}

}  // namespace

Config folder_config(const std::string& given) {
  std::string folder = given;
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  std::error_code error;
  const auto status = std::filesystem::status(folder, error);
  if (!std::filesystem::exists(status)) throw Error(Exit::usage, folder, "no such folder");
  if (!std::filesystem::is_directory(status))
    throw Error(Exit::usage, folder, "is a file; give the folder that holds the data, or --config");
  if (!valid_utf8(folder))
    throw Error(Exit::usage, folder, "a config cannot name this folder: its name is not UTF-8");
  const std::vector<DetectedData> found = detect_data(folder);
  if (found.empty()) {
    throw Error(Exit::usage, folder,
                "has no data that can be recognized; give --config, or a folder with " +
                    join(detectable_data(), ", or "));
  }
  if (found.size() > 1) {
    std::vector<std::string> kinds;
    for (const DetectedData& data : found) kinds.push_back(data.kind);
    throw Error(Exit::usage, folder,
                fmt::format("holds data of several kinds ({}): give --config", join(kinds, "; ")));
  }
  const DetectedData& data = found[0];
  std::string yaml = "input:\n  " + section_of(data.source, data.train, "  ");
  if (!data.validation.empty())
    yaml += "evals:\n  val:\n    " + section_of(data.source, data.validation, "    ");
  return parse_config(yaml, folder);
}

}  // namespace bv
