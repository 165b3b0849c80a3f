// The type of a key as KeyText::type writes it: "int >= 1 | 'auto'". Parses it, and describes it in
// words and as JSON Schema.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bv {

struct KeyType {
  enum class Kind { boolean, integer, number, text, any, null, word, list, tuple, mapping };
  Kind kind = Kind::any;
  std::string word;              // of Kind::word
  std::vector<KeyType> options;  // list, mapping: the alternatives of each item; may be empty
  // Of a tuple: the alternatives of each item.
  std::vector<std::vector<KeyType>> items;
  std::string place;  // of a mapping: where its keys are described; may be empty
  std::optional<double> least, most;
  bool above_least = false, below_most = false;  // the limit itself is not allowed
};

// Returns the alternatives. Throws Error(Exit::internal) for a string that KeyText does not allow.
std::vector<KeyType> parse_key_type(std::string_view text);

// Returns "integer of at least 1, or auto".
std::string type_in_words(const std::vector<KeyType>& type);

// Returns the schema of a string that contains an environment variable, '${NAME}'. The schema of a
// config defines it.
nlohmann::ordered_json variable_schema();

// Returns a JSON Schema (draft 7) of a value, which may be an environment variable. null is allowed
// too, because a key whose value is null counts as absent. A mapping with a place becomes {"$ref":
// "#/definitions/<place>"}; `path` is the place of a mapping that names none.
nlohmann::ordered_json type_schema(const std::vector<KeyType>& type, const std::string& path);

// Returns the words that a value may be, "true" and "false" for a boolean; empty if there are none.
std::vector<std::string> allowed_words(const std::vector<KeyType>& type);

}  // namespace bv
