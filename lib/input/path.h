// Paths that stand in a config.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/config/config.h"

namespace bv {

// The path config[key]; nullopt where it is absent. A remote one (gs://, s3://, hdfs://) is a
// problem of the config.
std::optional<std::string> maybe_path(const Config& config, std::string_view key);
// The same; absent is a problem.
std::string need_path(const Config& config, std::string_view key);

// A folder named in a config.
struct FolderKey {
  std::string path;
  Place place;  // for messages
  // Throws Error(Exit::usage) at `place` unless it is a folder.
  void check_exists() const;
};

}  // namespace bv
