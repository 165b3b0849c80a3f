#include "lib/help/wrap.h"

#include "lib/util/text.h"

namespace bv {
namespace {

constexpr size_t kColumns = 88;

std::string without_links(std::string text) {
  for (size_t middle = 0; (middle = text.find("](", middle)) != std::string::npos;) {
    const size_t open = text.rfind('[', middle), end = text.find(')', middle);
    const std::string target =
        end == std::string::npos ? "" : text.substr(middle + 2, end - middle - 2);
    const bool link = target.starts_with("#") || target.find(".md") != std::string::npos;
    if (!link || open == std::string::npos) {
      ++middle;
      continue;
    }
    text.erase(middle, end + 1 - middle);
    text.erase(open, 1);
  }
  return text;
}

}  // namespace

std::string wrap(const std::string& text, std::string_view first, std::string_view later) {
  std::string lines;
  std::string line(first);
  for (const std::string& paragraph : split(without_links(text), '\n')) {
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
