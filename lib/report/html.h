// Text inside HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace bv {

// Returns `text` with & < > " ' escaped, control characters dropped and invalid UTF-8 replaced.
std::string escape_html(std::string_view text);

}  // namespace bv
