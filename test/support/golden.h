// Data that tests compare with: arrays made by the reference's code (golden/...) and published data
// sets (data/...). The small files are in the repository (test/golden). The others are in a folder
// beside it: $BVTRAIN_SHARED, by default ../shared.
//
// A test whose data is missing prints a line and passes. With BVTRAIN_REQUIRE_DATA=1 it fails.
// scripts/test.sh sets that if CI=true and the folder exists, so that CI cannot pass because a file
// is missing.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace bv::test {

// Reports that the running test case lacks `what`: prints a line, or fails the test case if
// BVTRAIN_REQUIRE_DATA=1. Only for what CI must have. A test that lacks a GPU, a privilege or
// another program prints its line with WARN.
inline void report_missing(const std::string& what) {
  const char* required = std::getenv("BVTRAIN_REQUIRE_DATA");
  if (required && std::string(required) == "1") FAIL("BVTRAIN_REQUIRE_DATA=1, but no " << what);
  WARN("skipped: no " << what);
}

// Returns the path of a file or folder such as "golden/losses.npz" or "data/mnist-t10k". Reports
// it as missing and returns "" if there is none: the test case then ends.
inline std::string shared_file(const std::string& name) {
  const char* given = std::getenv("BVTRAIN_SHARED");
  const std::string shared = given && *given ? given : BV_SOURCE_DIR "/../shared";
  for (const std::string& root : {shared, std::string(BV_SOURCE_DIR "/test")}) {
    std::error_code ignored;
    const auto file = std::filesystem::canonical(root + "/" + name, ignored);
    if (!ignored) return file.string();
  }
  report_missing(shared + "/" + name);
  return "";
}

// shared_file() for a name within golden/.
inline std::string golden_file(const std::string& name) { return shared_file("golden/" + name); }

// Returns the golden folder that has `name`, such as "train/sgd.npz"; "" as shared_file().
inline std::string golden_folder(const std::string& name) {
  const std::string file = golden_file(name);
  return file.empty() ? "" : file.substr(0, file.size() - name.size() - 1);
}

// Returns the Python with NumPy, TensorBoard and jsonschema that scripts/test.sh sets up
// ($BVTRAIN_PYTHON).
// Reports it as missing and returns "" if there is none.
inline std::string test_python() {
  const char* python = std::getenv("BVTRAIN_PYTHON");
  if (python && std::filesystem::exists(python)) return python;
  report_missing("Python with NumPy, TensorBoard and jsonschema (scripts/test.sh sets one up)");
  return "";
}

}  // namespace bv::test
