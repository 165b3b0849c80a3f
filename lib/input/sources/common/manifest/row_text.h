// One row of a manifest, a text file with a row for each example, and what may be wrong with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace bv {

// How many of the broken rows of a file a message lists.
inline constexpr size_t kShownRows = 20;

// What is wrong with a row. The reader of the file turns it into an Error with a place.
class RowFault : public std::runtime_error {
 public:
  // `at`: the offset in the row. `fatal`: where the row ends is not known, or no setting of
  // skip_errors can help.
  RowFault(size_t at, const std::string& why, bool fatal = false)
      : std::runtime_error(why), at_(at), fatal_(fatal) {}

  size_t at() const { return at_; }
  bool fatal() const { return fatal_; }

 private:
  size_t at_;
  bool fatal_;
};

struct RowText {
  std::string_view text;
  int64_t line = 1;  // of its first character, counted from 1

  // Return the line, and the column in characters from 1, of the character at offset `at`.
  int64_t line_of(size_t at) const;
  int64_t column_of(size_t at) const;
};

// Throws RowFault if the text has a NUL byte or is not UTF-8.
void check_row_text(std::string_view text);

}  // namespace bv
