// Text: splitting and joining, short lists, finding a similar name, numbers for people, shell
// quoting, UTF-8, JSON values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bv {

// Always returns at least one part; parts may be empty.
std::vector<std::string> split(std::string_view text, char separator);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
// Returns the first names, joined by commas: "cat, dog, ...". With `counted`, a list that is cut
// ends with the number of all names: "cat, dog, ... (12 in all)".
std::string short_list(const std::vector<std::string>& names, bool counted = true);
std::string trim(std::string_view text);  // without white space at both ends
// Returns UTF-8 text without the byte order mark that some editors write at the start of a file.
std::string without_bom(std::string text);

// Returns the known name that is closest to `name`, or "" if none is close. Ignores case; uses the
// Damerau-Levenshtein distance.
std::string nearest(std::string_view name, const std::vector<std::string>& known);

std::string human_bytes(double bytes);                      // "1.5 GiB"
std::string human_count(int64_t count);                     // "6,573,120"
std::string counted(int64_t count, std::string_view noun);  // "1 file", "2 files"
std::string shape_text(std::span<const int64_t> shape);     // "(224, 224, 3)"
std::string short_number(double value);  // 4 significant digits: "0.9877", "21.03k", "1e+20"

// Returns a field of a CSV file: in double quotes where that is necessary.
std::string csv_field(const std::string& text);
// Returns `text` quoted for a shell: in single quotes where that is necessary.
std::string shell_word(const std::string& text);

// Returns the length in bytes of the character at the start of `text`, which is not empty; 0 if it
// is not well-formed UTF-8 (Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above
// U+10FFFF).
size_t utf8_length(std::string_view text);
bool valid_utf8(std::string_view text);
size_t utf8_characters(std::string_view text);  // their number
// Appends the character U+`code` in UTF-8; code <= 0x10FFFF.
void append_utf8(std::string& text, uint32_t code);

// Returns `text` quoted and escaped. Bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);
// Returns the shortest string that reads back as exactly `value`. JSON has no NaN and no
// infinities: they become the strings "nan", "inf" and "-inf", with quotes.
std::string json_number(double value);

}  // namespace bv
