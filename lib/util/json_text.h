// The text of the JSON that bvtrain writes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace bv {

// Returns the text of `value`: on one line, or with `indent` spaces for each level. Bytes that are
// not UTF-8, as paths and command lines may hold, become U+FFFD.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

// Returns the number as JSON. JSON has no NaN and no infinities: they become the strings "nan",
// "inf" and "-inf".
nlohmann::ordered_json json_value(double value);

}  // namespace bv
