// Private to lib/config: the text of a config file, split into lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/util/error.h"

namespace bv {

// Turns offsets in bytes, and the marks of yaml-cpp, into places. `text` must outlive it.
class SourceText {
 public:
  SourceText(std::string_view text, std::string name, bool on_command_line);

  // Returns the offset of a mark of yaml-cpp: line and byte, counted from 0.
  size_t offset(int line, int column) const;
  Place at(size_t offset) const;
  Error error(size_t offset, std::string_view why) const {
    return Error(Exit::usage, at(offset), why);
  }
  std::string_view text() const { return text_; }
  size_t lines() const { return lines_.size(); }
  std::string_view line(size_t number) const;  // counted from 0, without the end of the line
  size_t begin_of_line(size_t number) const { return lines_.at(number); }
  size_t line_of(size_t offset) const;  // counted from 0

 private:
  std::string_view text_;
  std::string name_;
  bool on_command_line_;
  std::vector<size_t> lines_;  // offset of the first byte of each
  mutable size_t last_offset_ = 0;
  mutable int last_column_ = 1;
};

}  // namespace bv
