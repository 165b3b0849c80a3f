// Makes text from a file or the command line safe for a terminal: names may hold anything.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace bv {

// Makes a string safe for a one-line message, and cuts it if it is longer than `longest` bytes.
// Escapes what could control a terminal or change how the line reads: control characters, including
// newlines and those above U+007F; line separators; marks that change the direction of the text;
// and bytes that are not UTF-8. All other characters stay as they are. Text that is already escaped
// does not change.
std::string printable(std::string_view text, size_t longest = 80);

// The same for a string of several lines. Newlines and tabs stay, and nothing is cut.
std::string printable_lines(std::string_view text);

}  // namespace bv
