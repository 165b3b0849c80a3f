// A folder with images and a manifest, for the tests of csv and jsonl.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/config/load_config.h"
#include "lib/input/ops/common/text_tensor.h"
#include "lib/input/prepare_data.h"
#include "test/input/lists.h"
#include "test/support/config.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/image_files.h"

namespace bv::test {

// Has the images images/{a,b,c}.jpg and its own cache.
struct ManifestFolder : TempFolder {
  ManifestFolder() {
    setenv("XDG_CACHE_HOME", cache.path().c_str(), 1);
    const int shades[] = {50, 100, 150};
    for (int i = 0; i < 3; ++i)
      write(std::string("images/") + "abc"[i] + ".jpg", flat_jpeg(shades[i]));
  }
  ~ManifestFolder() { unsetenv("XDG_CACHE_HOME"); }

  // `rest`: further keys of the section, each line with a newline.
  static std::string section(const std::string& file, const std::string& rest) {
    const std::string source = file.ends_with(".csv") ? "csv" : "jsonl";
    return "name: " + source + "\nfname: " + file + "\n" + rest;
  }
  static std::shared_ptr<const Dataset> open_file(const std::string& file, const std::string& rest,
                                                  const DataEnv& env = {}) {
    return from_yaml(section(file, rest),
                     [&](const Config& config) { return prepare_data(config, env); })(std::nullopt);
  }
  // Returns the error of opening the file `name` with this content, without the path of the folder.
  std::string problem_of(const std::string& name, const std::string& content,
                         const std::string& rest = "") const {
    return local(error_of([&] { open_file(write(name, content), rest); }));
  }
  // Returns the remarks about a file.
  std::vector<std::string> remarks_of(const std::string& file, const std::string& rest) const {
    std::vector<std::string> lines = open_file(file, rest)->source().file_notes(0).remarks;
    for (std::string& line : lines) line = local(line);
    return lines;
  }
  std::string local(std::string text) const {
    for (size_t at; (at = text.find(path() + "/")) != std::string::npos;)
      text.erase(at, path().size() + 1);
    return text;
  }
  // Sets the time of the last change of a file to an hour ago, so that its index is stored.
  static void age_file(const std::string& file) {
    std::filesystem::last_write_time(
        file, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  }

  TempFolder cache;
};

inline std::string text_at(const Example& example, const std::string& key) {
  return bv::read_text(example.at(key));
}

}  // namespace bv::test
