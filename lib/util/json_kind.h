// What is wrong with a value of a JSON file, in words for the user of the program.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace bv {

enum class JsonKind {
  count,   // a whole number from 0 to 2^63 - 1
  number,  // any number
  flag,    // true or false
  text,
  texts,  // a list of texts
  list,
  object
};

// Returns how deep the brackets of a JSON text are nested. Check this before parsing untrusted
// text: printing a value in a message recurses once per level.
int64_t json_nesting(std::string_view text);

// Returns "is a text, expected a whole number" unless `value` is of that kind; then "".
std::string json_fault(const nlohmann::json& value, JsonKind kind);

}  // namespace bv
