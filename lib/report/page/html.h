// Text inside HTML and SVG.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace bv {

// Returns `text` with & < > " ' escaped, control characters dropped and invalid UTF-8 replaced.
std::string escape_html(std::string_view text);

// Returns `text` if it has at most `most` bytes, otherwise a start of it that ends with a whole
// character, and "...".
std::string clipped_bytes(std::string_view text, size_t most);

}  // namespace bv
