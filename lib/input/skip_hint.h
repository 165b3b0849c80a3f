#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace bv {

// Returns what messages about broken examples say about the key that skips them. `section` is the
// part of the config that has the key: "input" or "evals.<name>".
inline std::string skip_hint(std::string_view section) {
  return fmt::format("({}.skip_errors: N skips up to N such examples)", section);
}

// What a message about a feature that an example lacks adds if the config does not choose the
// features: skipping the example would lose its image.
inline constexpr std::string_view kLeaveOutHint =
    "; to leave it out, list the features to read in `features`";

}  // namespace bv
