#pragma once

#include <string>
#include <vector>

namespace bv {

// A column of a table for a terminal.
struct TextColumn {
  std::vector<std::string> cells;
  bool right = false;  // aligned to the right
};

// Returns the lines of a table, without newlines. All columns must have the same number of cells.
// Widths count characters, not bytes.
std::vector<std::string> aligned(const std::vector<TextColumn>& columns);

}  // namespace bv
