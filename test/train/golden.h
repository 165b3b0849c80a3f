// Where the arrays made by the reference's code lie: $BVTRAIN_SHARED/golden (default ../shared from
// the project's root).
#pragma once

#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace bv {

inline std::optional<std::string> golden_folder() {
  const char* shared = std::getenv("BVTRAIN_SHARED");
  const std::string root = shared && *shared ? shared : BV_SOURCE_DIR "/../shared";
  if (std::filesystem::is_directory(root + "/golden")) return root + "/golden";
  WARN("skipped: no " << root << "/golden");
  return std::nullopt;
}

}  // namespace bv
