#include "lib/util/wrong_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "lib/util/error.h"

namespace bv {
namespace {

// Returns whether `text` begins with `word`, ignoring case.
bool begins(std::string_view text, std::string_view word) {
  return text.size() >= word.size() &&
         std::equal(word.begin(), word.end(), text.begin(), [](char a, char b) {
           return a == std::tolower(static_cast<unsigned char>(b));
         });
}

}  // namespace

std::string wrong_file(std::span<const uint8_t> head, std::string_view what) {
  if (head.empty()) return "the file is empty";
  std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  if (text.starts_with("version https://git-lfs.github.com/spec/")) {
    return fmt::format(
        "this is a git-LFS pointer, not the {} itself: run 'git lfs pull' where it came from",
        what);
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text[0])) != 0)
    text.remove_prefix(1);
  if (begins(text, "<!doctype html") || begins(text, "<html"))
    return "this is an HTML page, probably an error message of a web server: download it again";
  return "";
}

void refuse_wrong_file(std::span<const uint8_t> head, const std::string& file) {
  if (const std::string why = wrong_file(head); !why.empty()) throw Error(Exit::usage, file, why);
}

void refuse_wrong_file(std::string_view head, const std::string& file) {
  refuse_wrong_file(std::span(reinterpret_cast<const uint8_t*>(head.data()), head.size()), file);
}

}  // namespace bv
