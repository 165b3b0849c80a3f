// Reads JSON that may come from anywhere, and says what is wrong with a value, in words for the
// user of the program.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace bv {

enum class JsonKind {
  count,   // an integer from 0 to 2^63 - 1
  number,  // any number
  flag,    // true or false
  text,
  texts,  // a list of strings
  list,
  object
};

// Returns how deep the brackets of a JSON text are nested. Check this before parsing untrusted
// text: printing a value in a message recurses once per level.
int64_t json_nesting(std::string_view text);

// Returns the JSON value in the text of a file. The value is discarded (is_discarded()) if the text
// is not JSON, or is nested more than limits::kJsonNesting deep: code that copies, compares or
// prints a value recurses once per level.
nlohmann::json shallow_json(std::string_view text);

// Returns "is a string, expected an integer" unless `value` is of that kind; then "".
std::string json_fault(const nlohmann::json& value, JsonKind kind);

}  // namespace bv
