#include "lib/report/html.h"

#include "lib/util/text.h"

namespace bv {

std::string escape_html(std::string_view text) {
  const bool valid = valid_utf8(text);
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else if (byte >= 0x80 && !valid) {
      out += "\xEF\xBF\xBD";
    } else if ((byte >= 0x20 && byte != 0x7f) || c == '\n' || c == '\t') {
      out += c;
    }
  }
  return out;
}

}  // namespace bv
