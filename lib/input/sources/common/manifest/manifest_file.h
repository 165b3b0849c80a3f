#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/input/sources/common/manifest/row_text.h"
#include "lib/util/error.h"
#include "lib/util/regular_file.h"

namespace bv {

// Returns the error about a row: "data/train.csv:17:5: error: <why>".
Error row_error(const std::string& file, const RowText& row, const RowFault& fault);

// Returns what the file is that begins with `head`, and what to do: "is UTF-16 text: save the file
// as UTF-8", or the same of a compressed file or a spreadsheet; "" if it may be UTF-8 text.
std::string other_encoding(std::span<const uint8_t> head);

struct ManifestRow {
  RowText row;           // with the end of its line
  uint64_t offset = 0;   // in the file
  bool complete = true;  // false: the file ends without a newline after it
};

// A text file that is read from front to back, row by row, in bounded memory. Shows the progress,
// and throws Stopped if a signal asks the process to stop. Used by one thread.
class ManifestFile {
 public:
  // Skips a byte order mark. Throws Error(Exit::usage) if the file cannot be read, is empty, or is
  // something else: a git-LFS pointer, an HTML page, compressed, UTF-16.
  explicit ManifestFile(const std::string& file);
  ~ManifestFile();
  ManifestFile(const ManifestFile&) = delete;

  // Returns the length of the row at the beginning of `text`, with the end of its line; 0 if `text`
  // ends before the row does. `last`: nothing follows `text`, so 0 is not allowed. Throws RowFault.
  using RowLength = std::function<size_t(std::string_view text, bool last)>;
  // Returns the next row, nullopt at the end of the file. The text is valid until the next call.
  // Throws Error(Exit::usage) for a RowFault, and for a row of more than limits::kRowBytes.
  std::optional<ManifestRow> next(const RowLength& length_of);

 private:
  std::string_view rest() const { return std::string_view(buffer_).substr(begin_); }
  bool at_end() const { return offset_ + rest().size() >= file_.size(); }
  void read_more();
  size_t length_of_row(const RowLength& length_of);

  const std::string name_;
  RegularFile file_;
  std::string buffer_;
  size_t begin_ = 0;     // of the next row, in buffer_
  uint64_t offset_ = 0;  // of the next row, in the file
  int64_t line_ = 1;     // of the next row
  size_t row_ = 0;       // bytes of the row that next() has returned
  bool shown_ = false;   // the progress
};

}  // namespace bv
