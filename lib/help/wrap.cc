#include "lib/help/wrap.h"

#include "lib/util/text.h"

namespace bv {
namespace {
constexpr size_t kColumns = 88;
}

std::string wrap(const std::string& text, std::string_view first, std::string_view later) {
  std::string lines;
  std::string line(first);
  for (const std::string& paragraph : split(text, '\n')) {
    if (!lines.empty()) line = later;
    bool empty = true;  // the line has no word yet
    for (const std::string& word : split(paragraph, ' ')) {
      if (!empty && line.size() + 1 + word.size() > kColumns) {
        lines += line + "\n";
        line = later;
        empty = true;
      }
      line += (empty ? "" : " ") + word;
      empty = false;
    }
    lines += line + "\n";
  }
  lines.pop_back();
  return lines;
}

}  // namespace bv
