#include "lib/util/place.h"

#include <fmt/format.h>

#include "lib/util/printable.h"

namespace bv {

std::string printable(std::string_view text, size_t longest) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (out.size() >= longest && (c & 0xC0) != 0x80) return out + "...";
    if (c == '\n') {
      out += "\\n";
    } else if (c < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", c);
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string Place::text() const {
  const std::string name = printable(file, std::string::npos);
  return line > 0 ? fmt::format("{}:{}:{}", name, line, column) : name;
}

}  // namespace bv
