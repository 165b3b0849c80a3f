// Files made by the reference's code, and data beside the project: below $BVTRAIN_SHARED (default
// ../shared from the project's root), else what the repository itself keeps of them: test/golden.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace bv {

// "golden/losses.npz" to its path; "" (and a printed line) where there is no such file.
inline std::string shared_file(const std::string& name) {
  const char* given = std::getenv("BVTRAIN_SHARED");
  const std::string shared = given && *given ? given : BV_SOURCE_DIR "/../shared";
  for (const std::string& root : {shared, std::string(BV_SOURCE_DIR "/test")}) {
    std::error_code ignored;
    const auto file = std::filesystem::canonical(root + "/" + name, ignored);
    if (!ignored) return file.string();
  }
  WARN("skipped: no " << shared << "/" << name);
  return "";
}

}  // namespace bv
