#include "lib/input/check/broken_example.h"

#include <fmt/format.h>

#include <cctype>
#include <filesystem>
#include <string_view>

#include "lib/util/parse_count.h"
#include "lib/util/text.h"

namespace bv {
namespace {

bool is_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

// Returns the number after the last `before` in `text`.
std::optional<int64_t> number_behind(std::string_view text, std::string_view before) {
  const size_t at = text.rfind(before);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view digits = text.substr(at + before.size());
  size_t count = 0;
  while (count < digits.size() && std::isdigit(static_cast<unsigned char>(digits[count])) != 0)
    ++count;
  return parse_count(digits.substr(0, count));
}

}  // namespace

void find_file(BrokenExample& broken, const std::string& where, const std::string& folder) {
  constexpr std::string_view kOffset = " @ offset ";
  for (const std::string& text : {broken.example, where}) {
    const std::string file = text.substr(0, text.rfind(kOffset));
    if (file.size() == text.size() || !is_file(file)) continue;
    broken.file = file;
    broken.offset = number_behind(text, kOffset);
    return;
  }
  const std::string inside = folder.empty() ? "" : folder + "/" + broken.example;
  if (!inside.empty() && is_file(inside)) {
    blame_file(broken, inside);
    return;
  }
  const std::string before_line = broken.example.substr(0, broken.example.rfind(':'));
  if (is_file(before_line)) broken.file = before_line;
}

void blame_file(BrokenExample& broken, const std::string& file) {
  broken.file = file;
  broken.offset = number_behind(broken.reason, " at byte ");
}

std::string line_of(const BrokenExample& broken) {
  std::string files;
  if (broken.files) {
    std::vector<std::string> names;
    for (const std::string& name : *broken.files) names.push_back(json_string(name));
    files = fmt::format("\"files\": [{}], ", join(names, ", "));
  }
  return fmt::format(
      "{{\"data\": {}, \"example\": {}, \"file\": {}, \"offset\": {}, {}\"reason\": {}}}\n",
      json_string(broken.data), json_string(broken.example),
      broken.file.empty() ? "null" : json_string(broken.file),
      broken.offset ? std::to_string(*broken.offset) : "null", files, json_string(broken.reason));
}

}  // namespace bv
