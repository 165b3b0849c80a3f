#include "lib/util/text_table.h"

#include <algorithm>

#include "lib/util/text.h"

namespace bv {

std::vector<std::string> aligned(const std::vector<TextColumn>& columns) {
  std::vector<std::string> lines(columns.empty() ? 0 : columns[0].cells.size());
  for (const TextColumn& column : columns) {
    size_t width = 0;
    for (const std::string& cell : column.cells) width = std::max(width, utf8_characters(cell));
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::string room(width - utf8_characters(column.cells[i]), ' ');
      lines[i] += (&column == columns.data() ? "" : "  ") +
                  (column.right ? room + column.cells[i] : column.cells[i] + room);
    }
  }
  for (std::string& line : lines) line.erase(line.find_last_not_of(' ') + 1);
  return lines;
}

}  // namespace bv
