#include "lib/report/page/chart_text.h"

#include "lib/util/text.h"

namespace bv {
namespace {

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Returns the width of the character that begins with this byte, relative to the font size.
double width_of(unsigned char byte) {
  if (byte >= 0x80) return 1.05;
  const auto is_one_of = [&](std::string_view set) {
    return set.find(static_cast<char>(byte)) != std::string_view::npos;
  };
  if (is_one_of("ijlI.,:;'|! ")) return 0.34;
  if (is_one_of("frt()[]/-")) return 0.42;
  if (is_one_of("mwMW@%&")) return 1.0;
  return byte >= 'A' && byte <= 'Z' ? 0.76 : 0.645;
}

}  // namespace

double text_width(std::string_view text, double size) {
  const bool valid = valid_utf8(text);  // otherwise every byte is drawn as a character
  double width = 0;
  for (const char c : text) {
    if (!valid || !continues_character(c)) width += width_of(static_cast<unsigned char>(c));
  }
  return width * size;
}

std::string clipped_text(const std::string& text, double size, double width) {
  if (text_width(text, size) <= width) return text;
  const bool valid = valid_utf8(text);
  const double room = width - text_width("...", size);
  size_t start = text.size();
  double used = 0;
  for (size_t at = text.size(); at-- > 0;) {
    if (valid && continues_character(text[at])) continue;
    used += size * width_of(static_cast<unsigned char>(text[at]));
    if (used > room) break;
    start = at;
  }
  return "..." + text.substr(start);
}

}  // namespace bv
