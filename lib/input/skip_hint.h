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

// Ends the message "the example has no feature X" if the config has no key `features`: the user can
// then leave X out. To skip the example would lose its image.
inline constexpr std::string_view kLeaveOutHint =
    "; to leave it out, list the features to read in `features`";

}  // namespace bv
