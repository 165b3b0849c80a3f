// Names of a user's choice that become part of file names.
#pragma once

#include <string_view>

namespace bv {

// Returns whether `name` has 1 to 64 letters, digits and _ - . @ +, and does not begin with a dot.
bool is_file_name(std::string_view name);

inline constexpr std::string_view kFileNameRule =
    "write up to 64 letters, digits and _ - . @ +, not beginning with a dot";

}  // namespace bv
