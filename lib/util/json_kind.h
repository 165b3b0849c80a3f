// What is wrong with a value of a JSON file, in words for the user of the program.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

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

// Returns "is a text, expected a whole number" unless `value` is of that kind; then "".
std::string json_fault(const nlohmann::json& value, JsonKind kind);

}  // namespace bv
