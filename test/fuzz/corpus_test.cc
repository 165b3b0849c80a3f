// Calls every fuzz target with its corpus, with the inputs that fuzzing has found so far, and with
// prefixes of these files. An exception or a failed check in a target fails the test.
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <set>

#include "lib/util/file.h"
#include "test/fuzz/fuzz.h"
#include "test/support/folder.h"

namespace bv::test {
namespace {

namespace fs = std::filesystem;

const std::string kFolder = BV_TEST_DIR "/fuzz";

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

TEST_CASE("every fuzz target accepts its corpus", "[fuzz]") {
  for (const auto& [name, target] : fuzz_targets()) {
    const std::vector<std::string> corpus = files_in(kFolder + "/corpus/" + name);
    CAPTURE(name);
    CHECK(!corpus.empty());
    std::vector<std::string> files = files_in(kFolder + "/regression/" + name);
    files.insert(files.end(), corpus.begin(), corpus.end());
    for (const std::string& file : files) {
      CAPTURE(file);
      const std::string content = read_file(file);
      REQUIRE_NOTHROW(target(content));
      constexpr size_t kPrefixes = 24;
      const size_t step = std::max<size_t>(1, content.size() / kPrefixes);
      for (size_t size = 0; size < content.size(); size += step) {
        CAPTURE(size);
        REQUIRE_NOTHROW(target(FuzzInput(content).substr(0, size)));
      }
    }
  }
}

TEST_CASE("every folder of inputs belongs to a fuzz target", "[fuzz]") {
  CHECK(fuzz_targets().size() >= 20);
  for (const std::string kind : {"/corpus", "/regression"}) {
    for (const std::string& folder : files_in(kFolder + kind)) {
      CAPTURE(folder);
      CHECK(fuzz_targets().contains(fs::path(folder).filename().string()));
    }
  }
}

}  // namespace bv::test
