#include "lib/input/sources/common/manifest/row_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/util/text.h"

namespace bv {

int64_t RowText::line_of(size_t at) const {
  at = std::min(at, text.size());
  return line + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
}

int64_t RowText::column_of(size_t at) const {
  at = std::min(at, text.size());
  const size_t newline = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
  const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  const std::string_view before = text.substr(begin, at - begin);
  // Bytes 10xxxxxx continue a character.
  return 1 + std::count_if(before.begin(), before.end(),
                           [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

void check_row_text(std::string_view text) {
  const size_t nul = text.find('\0');
  if (nul != std::string_view::npos) throw RowFault(nul, "a NUL byte: the file must be UTF-8 text");
  if (valid_utf8(text)) return;
  size_t at = 0;
  for (size_t length; at < text.size() && (length = utf8_length(text.substr(at))) > 0;)
    at += length;
  throw RowFault(at, fmt::format("is not UTF-8 text (byte 0x{:02X}): save the file as UTF-8",
                                 static_cast<unsigned char>(text[at])));
}

}  // namespace bv
