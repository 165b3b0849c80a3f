// Lines of help for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace bv {

// Breaks `text` between words into lines of at most 88 columns. The first line begins with `first`,
// the others with `later`. A line break in `text` stays one. A link to a reference page is replaced
// by its text: "[muon](#muon)" becomes "muon". Returns no line break at the end.
std::string wrap(const std::string& text, std::string_view first, std::string_view later);

}  // namespace bv
