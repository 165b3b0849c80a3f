#include "lib/init/yaml_text.h"

#include <algorithm>
#include <cctype>

#include "lib/util/text.h"

namespace bv {
namespace {

// Paths and names of ASCII letters, digits and a few signs that begin like a path are plain. Single
// words may have another meaning in YAML (null, yes), so they need quotes if they are short.
bool is_plain(std::string_view text) {
  if (text.empty()) return false;
  const bool path = text.find('/') != std::string_view::npos;
  const auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  if (!letter(text[0]) && text[0] != '/' && !(path && text[0] == '.')) return false;
  constexpr size_t kLongestWord = 5;  // false
  if (!path && text.size() <= kLongestWord) {
    std::string lower(text);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    for (const char* word : {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}) {
      if (lower == word) return false;
    }
  }
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) != 0 || c == '/' || c == '.' || c == '_' || c == '-');
  });
}

}  // namespace

std::string without_references(std::string_view text) {
  std::string escaped(text);
  for (size_t at = 0; (at = escaped.find("${", at)) != std::string::npos; at += 3)
    escaped.insert(at, "$");
  return escaped;
}

std::string yaml_text(std::string_view text) {
  const std::string escaped = without_references(text);
  return is_plain(escaped) ? escaped : json_string(escaped);
}

std::string yaml_list(const std::vector<std::string>& items) {
  std::vector<std::string> texts;
  texts.reserve(items.size());
  for (const std::string& item : items) texts.push_back(yaml_text(item));
  return "[" + join(texts, ", ") + "]";
}

}  // namespace bv
