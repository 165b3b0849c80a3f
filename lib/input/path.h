// Paths of files and folders that a config names.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/config/config.h"

namespace bv {

// Returns the path config[key], or nullopt if the key is absent. Throws a problem of the config if
// the path is empty or remote (gs://, s3://, hdfs://).
std::optional<std::string> maybe_path(const Config& config, std::string_view key);
// Returns the path config[key]. Also throws if the key is absent.
std::string require_path(const Config& config, std::string_view key);

// A folder that a config names.
struct FolderKey {
  std::string path;
  Place place;  // of the key, for messages

  // Throws Error(Exit::usage) at `place` unless `path` is a folder.
  void check_exists() const;
};

}  // namespace bv
