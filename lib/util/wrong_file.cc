#include "lib/input/sources/common/wrong_file.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "lib/input/image/decode.h"

namespace bv {
namespace {

// Returns whether `text` begins with `word`, whatever the case.
bool begins(std::string_view text, std::string_view word) {
  return text.size() >= word.size() &&
         std::equal(word.begin(), word.end(), text.begin(), [](char a, char b) {
           return a == std::tolower(static_cast<unsigned char>(b));
         });
}

}  // namespace

std::string wrong_file(std::span<const uint8_t> head) {
  if (head.empty()) return "the file is empty";
  if (is_lfs_pointer(head))
    return "this is a git-LFS pointer, not the data itself: run 'git lfs pull' where it came from";
  std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text[0])) != 0)
    text.remove_prefix(1);
  if (begins(text, "<!doctype html") || begins(text, "<html"))
    return "this is an HTML page, probably an error message of a web server: download it again";
  return "";
}

}  // namespace bv
