#include "lib/help/key_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lib/util/error.h"
#include "lib/util/text.h"

namespace bv {
namespace {

using Kind = KeyType::Kind;

// Reads a type from left to right.
class TypeParser {
 public:
  explicit TypeParser(std::string_view text) : text_(text), rest_(text) {}

  std::vector<KeyType> whole() {
    std::vector<KeyType> type = alternatives();
    if (!rest_.empty()) fail();
    return type;
  }

 private:
  std::vector<KeyType> alternatives() {
    std::vector<KeyType> all;
    do {
      if (take("(")) {  // a group, which only a list needs
        for (KeyType& option : alternatives()) all.push_back(std::move(option));
        expect(")");
      } else {
        all.push_back(alternative());
      }
    } while (take("|"));
    return all;
  }

  KeyType alternative() {
    KeyType type;
    if (take("list of ")) {
      type.kind = Kind::list;
      type.options = group();
    } else if (take("map of ")) {
      type.kind = Kind::mapping;
      if (starts_type())
        type.options = group();
      else
        type.place = until(" |,])");
    } else if (take("map")) {
      type.kind = Kind::mapping;
    } else if (take("'")) {
      type.kind = Kind::word;
      type.word = until("'");
      expect("'");
    } else if (take("[")) {
      type.kind = Kind::tuple;
      do type.items.push_back(alternatives());
      while (take(","));
      expect("]");
    } else {
      type = scalar();
    }
    return type;
  }

  // The type after "of": one alternative, or several in parentheses.
  std::vector<KeyType> group() {
    if (!take("(")) return {alternative()};
    std::vector<KeyType> all = alternatives();
    expect(")");
    return all;
  }

  KeyType scalar() {
    KeyType type;
    if (take("bool")) {
      type.kind = Kind::boolean;
    } else if (take("int")) {
      type.kind = Kind::integer;
    } else if (take("float")) {
      type.kind = Kind::number;
    } else if (take("string")) {
      type.kind = Kind::text;
    } else if (take("any")) {
      type.kind = Kind::any;
    } else if (take("null")) {
      type.kind = Kind::null;
    } else {
      fail();
    }
    if (type.kind == Kind::integer || type.kind == Kind::number) range(type);
    return type;
  }

  void range(KeyType& type) {
    if (take(">=")) {
      type.least = number();
    } else if (take(">")) {
      type.least = number();
      type.above_least = true;
    } else if (!rest_.empty() && (std::isdigit(rest_[0]) != 0 || rest_[0] == '-')) {
      type.least = number();
      type.above_least = take("<");
      expect("..");
      type.below_most = take("<");
      type.most = number();
    }
  }

  bool starts_type() {
    for (const char* word :
         {"(", "[", "'", "bool", "int", "float", "string", "any", "list of ", "map"}) {
      if (!rest_.starts_with(word)) continue;
      const std::string_view behind = rest_.substr(std::string_view(word).size());
      // "input.data" is a path, "int" and "int >= 1" are types.
      if (behind.empty() || std::string_view(" |,])'>").find(behind[0]) != std::string_view::npos ||
          std::string_view("([' ").find(word[0]) != std::string_view::npos || word[0] == 'l')
        return true;
    }
    return false;
  }

  double number() {
    skip_blanks();
    double value = 0;
    const char* begin = rest_.data();
    size_t length = 0;  // "0..1": the dots are not part of the number
    while (length < rest_.size() && rest_.substr(length, 2) != ".." &&
           std::string_view("0123456789.-+e").find(rest_[length]) != std::string_view::npos)
      ++length;
    const auto [end, error] = std::from_chars(begin, begin + length, value);
    if (error != std::errc() || end != begin + length) fail();
    rest_.remove_prefix(length);
    skip_blanks();
    return value;
  }

  std::string until(std::string_view ends) {
    const size_t length = std::min(rest_.find_first_of(ends), rest_.size());
    std::string part(rest_.substr(0, length));
    rest_.remove_prefix(length);
    if (ends[0] != '\'') skip_blanks();
    return part;
  }

  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }

  bool take(std::string_view part) {
    skip_blanks();
    if (!rest_.starts_with(part)) return false;
    rest_.remove_prefix(part.size());
    if (part != "'") skip_blanks();
    return true;
  }
  void expect(std::string_view part) {
    if (!rest_.starts_with(part)) fail();
    take(part);
  }
  [[noreturn]] void fail() const {
    throw Error::in("help", Exit::internal,
                    fmt::format("the type '{}' of a key cannot be read at '{}'", text_, rest_));
  }

  std::string_view text_, rest_;
};

// Returns a limit exactly: 65536, 0.5.
std::string limit_text(double limit) {
  return limit == std::floor(limit) && std::abs(limit) < 1e15
             ? std::to_string(static_cast<int64_t>(limit))
             : short_number(limit);
}

std::string range_in_words(const KeyType& type) {
  if (!type.least) return "";
  const std::string least = limit_text(*type.least);
  const std::string begin = (type.above_least ? " above " : " of at least ") + least;
  if (!type.most) return begin;
  const std::string most = limit_text(*type.most);
  if (type.above_least || type.below_most)
    return fmt::format("{} and {} {}", begin, type.below_most ? "below" : "at most", most);
  return fmt::format(" from {} to {}", least, most);
}

std::string one_in_words(const KeyType& type) {
  switch (type.kind) {
    case Kind::boolean:
      return "true or false";
    case Kind::integer:
      return "integer" + range_in_words(type);
    case Kind::number:
      return "number" + range_in_words(type);
    case Kind::text:
      return "string";
    case Kind::any:
      return "any value";
    case Kind::null:
      return "null";
    case Kind::word:
      return type.word;
    case Kind::list:
      return "list of " + type_in_words(type.options);
    case Kind::tuple: {
      std::vector<std::string> parts;
      for (const auto& item : type.items) parts.push_back(type_in_words(item));
      return "[" + join(parts, ", ") + "]";
    }
    case Kind::mapping:
      return type.options.empty() ? "mapping" : "mapping to " + type_in_words(type.options);
  }
  return "";
}

nlohmann::ordered_json schema_of(const KeyType& type, const std::string& path);

// Whether a string with '${NAME}' stands for a value of one of these types, which a string is not.
bool may_be_variable(const std::vector<KeyType>& type) {
  const auto has = [&](std::initializer_list<Kind> kinds) {
    return std::any_of(type.begin(), type.end(), [&](const KeyType& option) {
      return std::find(kinds.begin(), kinds.end(), option.kind) != kinds.end();
    });
  };
  return has({Kind::boolean, Kind::integer, Kind::number, Kind::word}) &&
         !has({Kind::text, Kind::any});
}

// The schema of one of several alternatives.
nlohmann::ordered_json any_of(const std::vector<KeyType>& type, const std::string& path) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const KeyType& option : type) all.push_back(schema_of(option, path));
  if (may_be_variable(type)) all.push_back(variable_schema());
  if (all.size() == 1) return all[0];
  return {{"anyOf", all}};
}

nlohmann::ordered_json word_schema(const std::string& word) {
  // YAML does not read these as strings.
  if (word == "true" || word == "false") return {{"const", word == "true"}};
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error == std::errc() && end == word.data() + word.size() && !word.empty())
    return {{"enum", {word, nlohmann::ordered_json::parse(word)}}};
  return {{"const", word}};
}

nlohmann::ordered_json schema_of(const KeyType& type, const std::string& path) {
  nlohmann::ordered_json schema = nlohmann::ordered_json::object();
  switch (type.kind) {
    case Kind::boolean:
      return {{"type", "boolean"}};
    case Kind::integer:
    case Kind::number:
      schema["type"] = type.kind == Kind::integer ? "integer" : "number";
      if (type.least) schema[type.above_least ? "exclusiveMinimum" : "minimum"] = *type.least;
      if (type.most) schema[type.below_most ? "exclusiveMaximum" : "maximum"] = *type.most;
      return schema;
    case Kind::text:  // any YAML scalar is a string
      return {{"type", {"string", "number", "boolean"}}};
    case Kind::any:
      return schema;
    case Kind::null:
      return {{"type", "null"}};
    case Kind::word:
      return word_schema(type.word);
    case Kind::list:
      return {{"type", "array"}, {"items", any_of(type.options, path)}};
    case Kind::tuple: {
      nlohmann::ordered_json items = nlohmann::ordered_json::array();
      for (const auto& item : type.items) items.push_back(any_of(item, path));
      return {{"type", "array"},
              {"items", items},
              {"minItems", type.items.size()},
              {"maxItems", type.items.size()}};
    }
    case Kind::mapping:
      if (!type.options.empty())
        return {{"type", "object"}, {"additionalProperties", type_schema(type.options, path)}};
      return {{"$ref", "#/definitions/" + (type.place.empty() ? path : type.place)}};
  }
  return schema;
}

}  // namespace

std::vector<KeyType> parse_key_type(std::string_view text) { return TypeParser(text).whole(); }

std::string type_in_words(const std::vector<KeyType>& type) {
  std::string words;
  for (size_t i = 0; i < type.size(); ++i) {
    if (i > 0) words += i + 1 == type.size() ? " or " : ", ";
    words += one_in_words(type[i]);
  }
  return words;
}

nlohmann::ordered_json variable_schema() { return {{"$ref", "#/definitions/variable"}}; }

nlohmann::ordered_json type_schema(const std::vector<KeyType>& type, const std::string& path) {
  std::vector<KeyType> with_null = type;
  with_null.emplace_back().kind = Kind::null;
  return any_of(with_null, path);
}

std::vector<std::string> allowed_words(const std::vector<KeyType>& type) {
  std::vector<std::string> words;
  for (const KeyType& option : type) {
    if (option.kind == Kind::word) words.push_back(option.word);
    if (option.kind == Kind::boolean) words.insert(words.end(), {"true", "false"});
  }
  return words;
}

}  // namespace bv
