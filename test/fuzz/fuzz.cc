#include "test/fuzz/fuzz.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "lib/config/load_config.h"
#include "lib/input/image/decode.h"
#include "lib/input/prepare_data.h"
#include "lib/report/log.h"
#include "test/support/config.h"
#include "test/support/folder.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

// Created on first use. Indexes are also stored there and not in the user's cache.
const MemoryFolder& folder() {
  static const MemoryFolder made;
  static const bool set_up = [] {
    setenv("XDG_CACHE_HOME", (made / "cache").c_str(), 1);
    log::start(std::chrono::hours(24));  // a progress line for each input would be slow
    return true;
  }();
  static_cast<void>(set_up);
  return made;
}

}  // namespace

std::vector<FuzzInput> parts_of(FuzzInput input) {
  constexpr std::string_view kLine = "\n=====\n";
  std::vector<FuzzInput> parts;
  for (size_t end; (end = input.find(kLine)) != std::string_view::npos;) {
    parts.push_back(input.substr(0, end));
    input.remove_prefix(end + kLine.size());
  }
  parts.push_back(input);
  return parts;
}

FuzzInput part_of(const std::vector<FuzzInput>& parts, size_t i) {
  return i < parts.size() ? parts[i] : FuzzInput();
}

std::string scratch_folder() { return folder().path(); }

std::string scratch_file(const std::string& name, FuzzInput content) {
  return folder().write(name, content);
}

void read_scratch_data(const std::string& section) {
  const std::string here = replace_all(section, "DIR", scratch_folder());
  errors_only([&] {
    const auto open =
        from_yaml(here, [](const Config& config) { return prepare_data(config, DataEnv{}); });
    read_some(*open(std::nullopt));
  });
}

void read_some(const Dataset& data) {
  constexpr int64_t kMost = 16;
  for (int64_t i = 0; i < std::min(data.size(), kMost); ++i) {
    errors_only([&] { data.read(i); });
    data.describe(i);
  }
  data.label_bounds();
  data.missing_classes();
}

void decode_small(FuzzInput input, int64_t height, int64_t width) {
  constexpr int64_t kMostPixels = 1'000'000;
  if (height > kMostPixels || width > kMostPixels || height * width > kMostPixels) return;
  for (const int channels : {1, 3})
    errors_only([&] { decode_image(bytes_of(input), channels, /*precise=*/channels == 1); });
}

std::map<std::string, FuzzTarget>& fuzz_targets() {
  static std::map<std::string, FuzzTarget> targets;
  return targets;
}

}  // namespace bv::test
