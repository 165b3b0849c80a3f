// Lists of files on standard input, as `find` prints them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bv {

// Returns the paths in `text`: one a line or, if there is a NUL byte, each ended by one (find
// -print0). Empty paths are left out, and so is a carriage return at the end of a line.
std::vector<std::string> parse_file_list(std::string_view text);

// Reads a list from an open pipe or file to its end. Throws Error(Exit::usage) if it lists no files
// or cannot be read, and Stopped if a signal asks the process to stop.
std::vector<std::string> read_file_list(int fd);

}  // namespace bv
