#include "lib/util/json_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "lib/util/limits.h"

namespace bv {
namespace {

using nlohmann::json;

bool is_count(const json& value) {
  if (value.is_number_unsigned())
    return value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
  return value.is_number_integer() && value.get<int64_t>() >= 0;
}

bool is_of(const json& value, JsonKind kind) {
  switch (kind) {
    case JsonKind::count:
      return is_count(value);
    case JsonKind::number:
      return value.is_number();
    case JsonKind::flag:
      return value.is_boolean();
    case JsonKind::text:
      return value.is_string();
    case JsonKind::texts:
      return value.is_array() && std::all_of(value.begin(), value.end(),
                                             [](const json& each) { return each.is_string(); });
    case JsonKind::list:
      return value.is_array();
    case JsonKind::object:
      return value.is_object();
  }
  return false;
}

const char* name_of(JsonKind kind) {
  constexpr const char* kNames[] = {"an integer",        "a number", "true or false", "a string",
                                    "a list of strings", "a list",   "an object"};
  return kNames[static_cast<int>(kind)];
}

std::string name_of(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return "null";
    case json::value_t::boolean:
      return "true or false";
    case json::value_t::string:
      return "a string";
    case json::value_t::array:
      return "a list";
    case json::value_t::object:
      return "an object";
    default:
      return "the number " + value.dump();
  }
}

}  // namespace

std::string json_fault(const json& value, JsonKind kind) {
  if (is_of(value, kind)) return "";
  return fmt::format("is {}, expected {}", name_of(value), name_of(kind));
}

json shallow_json(std::string_view text) {
  if (json_nesting(text) > limits::kJsonNesting) return json(json::value_t::discarded);
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

int64_t json_nesting(std::string_view text) {
  int64_t depth = 0, deepest = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\')
      ++i;
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && (c == '{' || c == '['))
      deepest = std::max(deepest, ++depth);
    else if (!quoted && (c == '}' || c == ']'))
      --depth;
  }
  return deepest;
}

}  // namespace bv
