#include "lib/util/printable.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/util/text.h"

namespace bv {
namespace {

// Decodes a character of `text`, which is valid UTF-8 of at most three bytes.
unsigned code_point(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.size() == 1) return byte(0);
  if (text.size() == 2) return (byte(0) & 0x1FU) << 6 | (byte(1) & 0x3FU);
  return (byte(0) & 0x0FU) << 12 | (byte(1) & 0x3FU) << 6 | (byte(2) & 0x3FU);
}

bool harmless(unsigned code) {
  const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  const bool separator = code == 0x2028 || code == 0x2029;
  const bool direction = code == 0x061C || code == 0x200E || code == 0x200F ||
                         (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return !control && !separator && !direction;
}

// Returns a character, or a byte that is not UTF-8, unchanged or escaped.
std::string escaped(std::string_view character) {
  if (utf8_length(character) == 0 || character.size() == 1) {
    const auto byte = static_cast<unsigned char>(character[0]);
    if (byte == '\n') return "\\n";
    return byte < 0x80 && harmless(byte) ? std::string(character) : fmt::format("\\x{:02x}", byte);
  }
  if (character.size() == 4 || harmless(code_point(character))) return std::string(character);
  return fmt::format("\\u{:04x}", code_point(character));
}

// Returns the first character of `text`: a byte if that is not UTF-8.
std::string_view first_character(std::string_view text) {
  return text.substr(0, std::max<size_t>(1, utf8_length(text)));
}

}  // namespace

std::string printable(std::string_view text, size_t longest) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= longest) return out + "...";
    const std::string_view character = first_character(text);
    out += escaped(character);
    text.remove_prefix(character.size());
  }
  return out;
}

std::string printable_lines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view character = first_character(text);
    const bool layout = character == "\n" || character == "\t";
    out += layout ? std::string(character) : escaped(character);
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace bv
