// Rows of CSV (RFC 4180), with any delimiter. A cell may be quoted: delimiters and line ends in it
// are then literal, and "" is one quote. Lines end with LF or CR LF. One thing differs from the
// RFC: spaces and tabs around an unquoted cell are dropped, because "cat" and " cat" would
// otherwise be two classes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lib/input/sources/common/manifest/row_text.h"

namespace bv {

struct CsvCell {
  std::string text;  // without quotes
  size_t at = 0;     // the offset in the row
  bool quoted = false;
};

// Reads the row at the beginning of `text` into `cells`, and returns its length with the end of the
// line. Returns 0 if `text` ends before the row does; with `last`, the end of the text ends the row
// too. Throws a fatal RowFault for misplaced quotes, a carriage return that ends no line, and more
// than limits::kColumns cells. An empty line is one empty cell.
size_t read_csv_row(std::string_view text, char delimiter, bool last, std::vector<CsvCell>& cells);

// Returns whether these are the cells of an empty line.
bool is_empty_line(const std::vector<CsvCell>& cells);

// Returns the delimiter that occurs most often outside quotes in the first line of `text`: a comma,
// a semicolon, a tab or a bar. A comma if there is none.
char guess_delimiter(std::string_view text);
// Returns the name of a delimiter for messages: "','", "a tab".
std::string delimiter_text(char delimiter);

}  // namespace bv
