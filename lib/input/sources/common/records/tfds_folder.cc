#include "lib/input/sources/common/records/tfds_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "lib/input/sources/common/folder_index.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/json_kind.h"
#include "lib/util/limits.h"
#include "lib/util/parse_count.h"
#include "lib/util/text.h"
#include "lib/util/wrong_file.h"

namespace bv {
namespace {

using nlohmann::json;

constexpr const char* kInfoFile = "dataset_info.json";

using Version = std::array<int, 3>;

// Returns the numbers of "1.2.3". A part that is "*" becomes -1 if `wild` allows it.
std::optional<Version> parse_version(std::string_view text, bool wild = false) {
  const std::vector<std::string> parts = split(text, '.');
  if (parts.size() != 3) return std::nullopt;
  Version version{};
  for (size_t i = 0; i < 3; ++i) {
    const std::optional<int> number =
        wild && parts[i] == "*" ? std::optional<int>(-1) : parse_count<int>(parts[i]);
    if (!number) return std::nullopt;
    version[i] = *number;
  }
  return version;
}

std::string version_text(const Version& version) {
  return fmt::format("{}.{}.{}", version[0], version[1], version[2]);
}

bool fits(const Version& version, const Version& wanted) {
  for (size_t i = 0; i < 3; ++i) {
    if (wanted[i] >= 0 && wanted[i] != version[i]) return false;
  }
  return true;
}

// Returns the versions in a folder, sorted.
std::vector<Version> versions_in(const std::string& folder) {
  std::vector<Version> found;
  if (!folder_exists(folder)) return found;
  for (const std::string& name : list_folders(folder)) {
    const std::optional<Version> version = parse_version(name);
    if (version && name == version_text(*version) &&
        file_exists(folder + "/" + name + "/" + kInfoFile))
      found.push_back(*version);
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Reads a JSON file of a data set, which must hold an object.
json read_json(const std::string& file, size_t limit) {
  const std::string text = read_file(file, limit);
  if (json_nesting(text) > limits::kJsonNesting)
    throw Error(Exit::usage, file,
                fmt::format("is nested more than {} deep", limits::kJsonNesting));
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) refuse_wrong_file(text, file);
  if (value.is_discarded()) throw Error(Exit::usage, file, "is not valid JSON");
  if (!value.is_object()) throw Error(Exit::usage, file, json_fault(value, JsonKind::object));
  return value;
}

// Returns member `key` of an object. Throws at `file` if it is missing or of another kind.
const json& member(const json& object, const char* key, JsonKind kind, const std::string& file) {
  const auto found = object.find(key);
  if (found == object.end()) throw Error(Exit::usage, file, fmt::format("has no '{}'", key));
  if (const std::string fault = json_fault(*found, kind); !fault.empty())
    throw Error(Exit::usage, file, fmt::format("'{}' {}", key, fault));
  return *found;
}

std::string text_member(const json& object, const char* key, const std::string& fallback,
                        const std::string& file) {
  if (!object.contains(key)) return fallback;
  return member(object, key, JsonKind::text, file).get<std::string>();
}

// Throws at `file` if `text`, which is `what`, is too long for a part of a file's name.
void check_length(const std::string& text, const char* what, const std::string& file) {
  if (text.size() <= limits::kFileNameBytes) return;
  throw Error(Exit::usage, file,
              fmt::format("{} has {} bytes, but the name of a file can have only {}", what,
                          text.size(), limits::kFileNameBytes));
}

// Replaces every "{NAME}" of a template by its value (naming.ShardedFileTemplate).
std::string fill(std::string text, const std::vector<std::pair<std::string, std::string>>& values,
                 const std::string& file) {
  for (const auto& [name, value] : values) {
    // Continues after the inserted value, which may itself contain "{NAME}".
    for (size_t at = 0; (at = text.find("{" + name + "}", at)) != std::string::npos;
         at += value.size()) {
      text.replace(at, name.size() + 2, value);
      check_length(text, "a name that 'filepathTemplate' makes", file);
    }
  }
  if (text.find_first_of("{}/") != std::string::npos || text.empty()) {
    throw Error(Exit::usage, file, fmt::format("'filepathTemplate' '{}' is not understood", text));
  }
  return text;
}

std::vector<int64_t> read_lengths(const json& split, const std::string& name,
                                  const std::string& file) {
  std::vector<int64_t> lengths;
  const json& all = member(split, "shardLengths", JsonKind::list, file);
  if (std::ssize(all) > limits::kTfdsFiles)
    throw Error(Exit::usage, file, fmt::format("split '{}' has {} shards", name, all.size()));
  for (const json& length : all) {
    // protobuf's JSON writes 64-bit numbers as strings.
    const std::optional<int64_t> count =
        length.is_string()            ? parse_count(length.get_ref<const std::string&>())
        : length.is_number_unsigned() ? std::optional<int64_t>(length.get<int64_t>())
                                      : std::nullopt;
    if (!count || *count < 0 || *count > limits::kTfdsExamples)
      throw Error(Exit::usage, file,
                  fmt::format("split '{}': {} is not a number of examples", name, length.dump()));
    lengths.push_back(*count);
  }
  return lengths;
}

TfdsSplit read_split(const json& split, const TfdsFolder& folder, const std::string& file) {
  TfdsSplit result;
  result.name = member(split, "name", JsonKind::text, file).get<std::string>();
  check_length(result.name, "the name of a split", file);
  if (!split.contains("shardLengths")) {
    throw Error(Exit::usage, file,
                fmt::format("split '{}' has no 'shardLengths': it was prepared by a version of "
                            "TFDS before 3.0; prepare it again",
                            result.name));
  }
  if (split.contains("filepathPrefix") || split.contains("filepath_prefix"))
    throw Error(Exit::usage, file, fmt::format("split '{}' is in another folder", result.name));
  result.shard_lengths = read_lengths(split, result.name, file);
  const std::string pattern =
      text_member(split, "filepathTemplate", "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}", file);
  check_length(pattern, "'filepathTemplate'", file);
  const int64_t shards = std::ssize(result.shard_lengths);
  for (int64_t shard = 0; shard < shards; ++shard) {
    const std::string number = fmt::format("{:05}", shard), count = fmt::format("{:05}", shards);
    result.files.push_back(folder.path + "/" +
                           fill(pattern,
                                {{"DATASET", folder.name},
                                 {"SPLIT", result.name},
                                 {"FILEFORMAT", folder.file_format},
                                 {"SHARD_INDEX", number},
                                 {"NUM_SHARDS", count},
                                 {"SHARD_X_OF_Y", number + "-of-" + count}},
                                file));
    result.size += result.shard_lengths[shard];
  }
  return result;
}

// Reads dataset_info.json of the folder of a version.
TfdsFolder read_folder(const std::string& path) {
  const std::string file = path + "/" + kInfoFile;
  const json info = read_json(file, limits::kDataJsonBytes);
  TfdsFolder folder;
  folder.path = path;
  folder.name = member(info, "name", JsonKind::text, file).get<std::string>();
  check_length(folder.name, "'name'", file);
  folder.file_format = text_member(info, "fileFormat", "tfrecord", file);
  if (folder.file_format != "tfrecord" && folder.file_format != "array_record") {
    throw Error(Exit::usage, file,
                fmt::format("the files are in the format '{}'; supported are tfrecord and "
                            "array_record (tfds convert_format writes them)",
                            folder.file_format));
  }
  int64_t shards = 0;
  for (const json& split : member(info, "splits", JsonKind::list, file)) {
    if (!split.is_object())
      throw Error(Exit::usage, file, "a split " + json_fault(split, JsonKind::object));
    folder.splits.push_back(read_split(split, folder, file));
    shards += std::ssize(folder.splits.back().files);
    if (shards > limits::kTfdsFiles)
      throw Error(Exit::usage, file, fmt::format("lists more than {} files", limits::kTfdsFiles));
  }
  if (folder.splits.empty()) throw Error(Exit::usage, file, "lists no splits");
  return folder;
}

// Opens the version `wanted` ("" for the highest) of those in `folder`.
TfdsFolder open_version(const std::string& folder, const std::string& wanted, const Place& place) {
  const std::vector<Version> found = versions_in(folder);
  std::vector<std::string> names;
  names.reserve(found.size());
  for (const Version& version : found) names.push_back(version_text(version));
  const std::optional<Version> pattern = parse_version(wanted.empty() ? "*.*.*" : wanted, true);
  if (!pattern) {
    throw Error(Exit::usage, place,
                fmt::format("'{}' is not a version such as 3.0.2 or 3.*.*", wanted));
  }
  const auto chosen = std::find_if(found.rbegin(), found.rend(),
                                   [&](const Version& version) { return fits(version, *pattern); });
  if (chosen == found.rend()) {
    throw Error(Exit::usage, place,
                fmt::format("'{}' has no version {}{}", folder,
                            wanted.empty() ? "with a dataset_info.json" : wanted,
                            names.empty() ? "" : "; there are: " + join(names, ", ")));
  }
  TfdsFolder opened = read_folder(folder + "/" + version_text(*chosen));
  if (found.size() > 1 && pattern != *chosen)
    opened.remarks.push_back(fmt::format("version {} of {} is read ({} holds {})",
                                         version_text(*chosen), opened.name, folder,
                                         join(names, ", ")));
  return opened;
}

// Returns the config of a data set without its own version: the one that TFDS recorded as the
// default, or the only one.
std::string default_config(const std::string& folder, const std::string& name, const Place& place) {
  const std::string metadata = folder + "/.config/metadata.json";
  if (file_exists(metadata)) {
    const std::string config = text_member(read_json(metadata, limits::kDataJsonBytes),
                                           "default_config_name", "", metadata);
    if (!config.empty() && config.find('/') == std::string::npos &&
        !versions_in(folder + "/" + config).empty())
      return config;
  }
  std::vector<std::string> configs;
  for (const std::string& each : list_folders(folder)) {
    if (!versions_in(folder + "/" + each).empty()) configs.push_back(each);
  }
  if (configs.size() == 1) return configs[0];
  if (configs.empty())
    throw Error(Exit::usage, place,
                fmt::format("'{}' is not a prepared TFDS data set: it holds no version", folder));
  throw Error(Exit::usage, place,
              fmt::format("'{0}' has several configs; write one of {0}/{1}", name,
                          join(configs, ", " + name + "/")));
}

bool is_word(std::string_view text) {
  return !text.empty() && text[0] != '.' && text.find_first_of("/\\") == std::string_view::npos;
}

}  // namespace

std::string tfds_root(const std::string& data_dir) {
  if (!data_dir.empty()) return data_dir;
  if (const char* root = std::getenv("TFDS_DATA_DIR"); root && *root) return root;
  const char* home = std::getenv("HOME");
  return std::string(home ? home : "") + "/tensorflow_datasets";
}

bool is_tfds_folder(const std::string& path) {
  return file_exists(path + "/" + kInfoFile) || !versions_in(path).empty();
}

TfdsFolder open_tfds(const std::string& name, const std::string& root, const Place& place) {
  const size_t colon = name.find(':');
  const std::string version = colon == std::string::npos ? "" : name.substr(colon + 1);
  const std::vector<std::string> parts = split(name.substr(0, colon), '/');
  if (parts.size() > 2 || !std::all_of(parts.begin(), parts.end(), is_word)) {
    throw Error(
        Exit::usage, place,
        fmt::format("'{}' is not a TFDS name: expected name, name/config or name:version", name));
  }
  std::string folder = root + "/" + parts[0];
  if (!folder_exists(folder)) {
    throw Error(Exit::usage, place, fmt::format("no TFDS data set '{}' in '{}'", parts[0], root));
  }
  if (parts.size() == 2) {
    folder += "/" + parts[1];
  } else if (versions_in(folder).empty()) {
    folder += "/" + default_config(folder, parts[0], place);
  }
  return open_version(folder, version, place);
}

TfdsFolder open_tfds_folder(const std::string& path, const Place& place) {
  if (file_exists(path + "/" + kInfoFile)) return read_folder(path);
  if (!folder_exists(path))
    throw Error(Exit::usage, place, fmt::format("no such folder: '{}'", path));
  if (versions_in(path).empty()) {
    throw Error(
        Exit::usage, place,
        fmt::format("'{}' is not a prepared TFDS data set: it has no dataset_info.json", path));
  }
  return open_version(path, "", place);
}

}  // namespace bv
