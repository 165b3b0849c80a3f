// An image folder with its own cache of indexes.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/input/dataset.h"
#include "lib/input/prepare_data.h"
#include "lib/input/sources/common/folder_index.h"
#include "test/support/config.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/opens.h"

namespace bv::test {

// Images are added by write(). `rest` are more keys of the data, whole lines of YAML.
struct CachedImageFolder : TempFolder {
  CachedImageFolder() { setenv("XDG_CACHE_HOME", cache.path().c_str(), 1); }
  ~CachedImageFolder() { unsetenv("XDG_CACHE_HOME"); }

  std::shared_ptr<const Dataset> open_data(const std::string& rest = "") const {
    return from_yaml("name: image_folder\ndata_dir: " + path() + "\n" + rest,
                     [](const Config& config) { return prepare_data(config, {}); })(std::nullopt);
  }
  std::string problem(const std::string& rest = "") const {
    return error_of([&] { open_data(rest); });
  }
  std::vector<std::string> files(const std::string& rest = "") const {
    const auto data = open_data(rest);
    std::vector<std::string> names;
    for (int64_t i = 0; i < data->size(); ++i) names.push_back(data->describe(i));
    return names;
  }
  // Opens the index of these class folders. Returns whether it was in the cache: the images of the
  // first class, which must have some, are then not opened.
  bool index_was_cached(const std::vector<std::string>& classes, bool keep_broken = false) const {
    const std::filesystem::directory_iterator images(*this / classes.at(0));
    return opens_of(images->path(), [&] { FolderIndex(path(), classes, keep_broken); }) == 0;
  }
  std::string index_file() const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(cache.path())) {
      if (entry.is_regular_file()) return entry.path();
    }
    return "";
  }

  TempFolder cache;
};

}  // namespace bv::test
