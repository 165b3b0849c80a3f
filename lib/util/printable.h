// Text from a file or the command line, made fit for a message of one line.
#pragma once

#include <string>
#include <string_view>

namespace bv {

// Escapes control characters, and cuts a text that is longer than `longest` bytes.
std::string printable(std::string_view text, size_t longest = 80);

}  // namespace bv
