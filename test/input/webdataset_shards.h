// Folders of tar shards for the tests of the webdataset source.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/input/source.h"
#include "test/input/lists.h"
#include "test/input/tar_writer.h"
#include "test/support/config.h"
#include "test/support/error.h"
#include "test/support/folder.h"

namespace bv::test {

// Bytes that begin like a JPEG; they are not decoded here.
inline std::string jpeg(const std::string& text) { return "\xFF\xD8\xFF\xDB" + text; }

// The members of one sample: {"000.jpg", ...}, {"000.cls", ...}.
inline std::string sample(const std::string& key,
                          const std::map<std::string, std::string>& members) {
  std::string bytes;
  for (const auto& [extension, content] : members)
    bytes += tar_member(key + "." + extension, content);
  return bytes;
}
inline std::string labelled(const std::string& key, int64_t label) {
  return sample(key, {{"cls", fmt::format("{}\n", label)}, {"jpg", jpeg(key)}});
}

inline std::string text_in(const at::Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.const_data_ptr<uint8_t>()),
          static_cast<size_t>(tensor.numel())};
}

// A folder with tars and its own index cache.
struct Shards : MemoryFolder {
  Shards() { setenv("XDG_CACHE_HOME", cache.path().c_str(), 1); }
  ~Shards() { unsetenv("XDG_CACHE_HOME"); }

  // Writes a tar that looks as if it had not changed for an hour.
  void tar(const std::string& name, const std::string& members) const {
    write(name, members + kTarEnd);
    settle(name);
  }
  void settle(const std::string& name) const {
    std::filesystem::last_write_time(
        *this / name, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  }
  std::unique_ptr<Source> open(const std::string& rest = "", bool keep_broken = false,
                               const std::string& urls = "*.tar") const {
    SourceEnv env;
    env.keep_broken = keep_broken;
    return from_yaml("urls: '" + path() + "/" + urls + "'\n" + rest, [&](const Config& config) {
      return Source::Registry::make("webdataset", config, config.place(), env);
    });
  }
  // Returns a message without the path of this folder.
  std::string without_path(std::string text) const {
    for (size_t at; (at = text.find(path() + "/")) != std::string::npos;)
      text.erase(at, path().size() + 1);
    return text;
  }
  std::string problem(const std::string& rest = "", const std::string& urls = "*.tar") const {
    return without_path(error_of([&] { open(rest, false, urls)->size(0); }));
  }
  std::string read_problem(const Source& source, int64_t i) const {
    return without_path(error_of([&] { source.read(0, i); }, Exit::data));
  }
  std::string index_file() const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(cache.path())) {
      if (entry.is_regular_file()) return entry.path();
    }
    return "";
  }

  MemoryFolder cache;
};

inline Labels shard_labels(const Source& source) {
  const at::Tensor labels = source.labels(0);
  if (!labels.defined()) return {};
  const int64_t* values = labels.const_data_ptr<int64_t>();
  return {values, values + labels.numel()};
}
inline Names images_of(const Source& source) {
  Names images;
  for (int64_t i = 0; i < source.size(0); ++i)
    images.push_back(text_in(source.read(0, i).at("image")).substr(4));
  return images;
}
inline Names keys_of(const Example& example) {
  Names keys;
  for (const auto& [key, value] : example) keys.push_back(key);
  return keys;
}

}  // namespace bv::test
