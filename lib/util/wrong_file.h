#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace bv {

// Says why a file that should hold data may hold something else, judged by its first bytes: "the
// file is empty", "this is a git-LFS pointer, not the data itself: ..." or "this is an HTML page,
// probably an error message of a web server: ...". Returns "" if it looks like none of these.
// 64 bytes are enough; pass fewer only if the file has fewer.
std::string wrong_file(std::span<const uint8_t> head);

}  // namespace bv
