#pragma once

#include <fmt/format.h>

#include <string>

namespace bv {

// Returns "0.1.0 (1c5c5c8f2d10)", or only the version if the commit is "" or "unknown".
inline std::string version_text(const std::string& version, const std::string& commit) {
  const bool known = !commit.empty() && commit != "unknown";
  return known ? fmt::format("{} ({})", version, commit) : version;
}

}  // namespace bv
