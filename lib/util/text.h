// Text: splitting, nearest names, sizes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bv {

std::vector<std::string> split(std::string_view text, char separator);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string trim(std::string_view text);
// The known name nearest to `name` by Damerau-Levenshtein distance, or "" if none is close.
std::string nearest(std::string_view name, const std::vector<std::string>& known);
std::string human_bytes(double bytes);   // "1.5 GiB"
std::string human_count(int64_t count);  // "6,573,120"
bool valid_utf8(std::string_view text);
std::string json_string(std::string_view text);  // quoted and escaped

}  // namespace bv
