// Recognizes files that are not the expected data: empty ones, git-LFS pointers, web pages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace bv {

// Says why a file that should hold data may hold something else, judged by its first bytes: "the
// file is empty", "this is a git-LFS pointer, not the data itself: ..." or "this is an HTML page,
// probably an error message of a web server: ...". Returns "" if it looks like none of these.
// 64 bytes are enough; pass fewer only if the file has fewer. `what` is what the file should hold.
std::string wrong_file(std::span<const uint8_t> head, std::string_view what = "data");

// Throws Error(Exit::usage) at `file` if wrong_file() can identify what is wrong with it.
void refuse_wrong_file(std::span<const uint8_t> head, const std::string& file);
void refuse_wrong_file(std::string_view head, const std::string& file);

}  // namespace bv
