#include "lib/config/source_text.h"

#include <algorithm>

namespace bv {

SourceText::SourceText(std::string_view text, std::string name, bool on_command_line)
    : text_(text), name_(std::move(name)), on_command_line_(on_command_line) {
  lines_.push_back(0);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') lines_.push_back(i + 1);
  }
}

size_t SourceText::offset(int line, int column) const {
  if (line < 0 || static_cast<size_t>(line) >= lines_.size()) return text_.size();
  return std::min(text_.size(), lines_[line] + static_cast<size_t>(std::max(0, column)));
}

Place SourceText::at(size_t offset) const {
  if (on_command_line_) return {name_, 0, 0};
  const size_t line = line_of(offset);
  // Places are usually requested in order. Continuing from the last one keeps the time linear in
  // the length of a line.
  const size_t begin = lines_[line];
  const bool onward = last_offset_ >= begin && last_offset_ <= offset;
  int column = onward ? last_column_ : 1;
  for (size_t i = onward ? last_offset_ : begin; i < offset; ++i) {
    if ((text_[i] & 0xC0) != 0x80) ++column;  // characters, not bytes
  }
  last_offset_ = offset;
  last_column_ = column;
  return {name_, static_cast<int>(line) + 1, column};
}

std::string_view SourceText::line(size_t number) const {
  const size_t begin = lines_.at(number);
  std::string_view line = text_.substr(begin, text_.find('\n', begin) - begin);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

size_t SourceText::line_of(size_t offset) const {
  return static_cast<size_t>(std::upper_bound(lines_.begin(), lines_.end(), offset) -
                             lines_.begin() - 1);
}

}  // namespace bv
