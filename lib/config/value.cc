// Converts nodes to typed values and back: defines which spellings are numbers and booleans, and
// the messages for the others.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <variant>

#include "lib/config/node.h"
#include "lib/util/text.h"

namespace bv {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }

std::string_view without_sign(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return text;
}

// [+-] (digits [. [digits]] | . digits) [e [+-] digits]
bool has_number_form(std::string_view text) {
  text = without_sign(text);
  size_t i = 0, digits = 0;
  for (; i < text.size() && digit(text[i]); ++i) ++digits;
  if (i < text.size() && text[i] == '.') {
    for (++i; i < text.size() && digit(text[i]); ++i) ++digits;
  }
  if (digits == 0) return false;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    const size_t begin = i;
    while (i < text.size() && digit(text[i])) ++i;
    if (i == begin) return false;
  }
  return i == text.size();
}

// Some YAML parsers read 010 as octal, others as decimal.
bool has_leading_zero(std::string_view text) {
  text = without_sign(text);
  return text.size() > 1 && text[0] == '0' && digit(text[1]);
}

bool is_infinity(std::string_view text) {
  const std::string_view unsigned_text = without_sign(text);
  return unsigned_text == ".inf" || unsigned_text == ".Inf" || unsigned_text == ".INF";
}

// Returns a hint for a string that looks like a number to a human; "" if there is none.
std::string number_hint(const Node& node) {
  if (node.kind != Node::Kind::scalar) return "";
  if (node.style == Node::Style::quoted) return is_number(node.text) ? " (remove the quotes)" : "";
  std::string plain;
  for (const char c : node.text) {
    if (c != '_') plain += c;
  }
  if (plain.size() != node.text.size() && digit(node.text.back()) && has_number_form(plain)) {
    return fmt::format(" (write {})", printable(plain));
  }
  if (has_number_form(node.text) && has_leading_zero(node.text)) {
    const bool negative = node.text[0] == '-';
    std::string_view rest = without_sign(node.text);
    while (rest.size() > 1 && rest[0] == '0' && digit(rest[1])) rest.remove_prefix(1);
    return fmt::format(" (leading zeros are an error: write {}{})", negative ? "-" : "",
                       printable(rest));
  }
  return "";
}

std::optional<Wrong> wrong(const Node& node, std::string_view expected, std::string_view hint) {
  const std::string_view folded =
      node.folded ? " (it continues on the next line, which is indented deeper)" : "";
  return Wrong{&node, "",
               fmt::format("expected {}, got {}{}", expected, describe(node),
                           folded.empty() ? hint : folded)};
}

// Returns whether the whole of `text` is a number in the range of T.
template <class T>
bool parse(std::string_view text, T& out) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

bool maybe_number(const Node& node) {
  return node.kind == Node::Kind::scalar && node.style != Node::Style::quoted &&
         is_number(node.text);
}

template <class T>
std::shared_ptr<Node> scalar_node(const T& text, Node::Style style) {
  auto node = std::make_shared<Node>();
  node->kind = Node::Kind::scalar;
  node->style = style;
  node->text = text;
  return node;
}

// Whether the items are mappings, and would be one mapping without the '- ' before them.
bool is_one_mapping(const std::vector<std::shared_ptr<Node>>& items) {
  std::set<std::string> keys;
  for (const auto& item : items) {
    if (item->kind != Node::Kind::map) return false;
    for (const Node::Entry& entry : item->map) {
      if (!keys.insert(entry.key).second) return false;
    }
  }
  return !items.empty();
}

}  // namespace

bool is_number(std::string_view text) {
  return (has_number_form(text) && !has_leading_zero(text)) || is_infinity(text);
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
      return "null";
    case Node::Kind::list:
      return "a list";
    case Node::Kind::map:
      return "a mapping";
    case Node::Kind::scalar:
      break;
  }
  if (node.style == Node::Style::literal) {
    return node.text == "true" ? "True" : node.text == "false" ? "False" : printable(node.text);
  }
  const bool tricky = node.style == Node::Style::quoted &&
                      (is_number(node.text) || node.text == "true" || node.text == "false");
  return fmt::format("{}'{}'", tricky ? "the string " : "", printable(node.text));
}

std::string mapping_hint(const Node& node) {
  if (node.kind == Node::Kind::list) {
    return is_one_mapping(node.list) ? " (remove the '- ' before its keys)" : "";
  }
  if (node.kind != Node::Kind::scalar || node.style == Node::Style::quoted) return "";
  if (node.text.find(" = ") != std::string::npos) return " (write 'key: value', not 'key = value')";
  const size_t colon = node.text.find(':');
  const bool key = colon != std::string::npos && node.text.find_first_of("/\\(") > colon;
  return key ? " (a space must follow the ':')" : "";
}

// ---- names of types

template <>
const char* expected<bool>() {
  return "true or false";
}
template <>
const char* expected<int64_t>() {
  return "an integer";
}
template <>
const char* expected<double>() {
  return "a number";
}
template <>
const char* expected<std::string>() {
  return "a string";
}
template <>
const char* expected<AnyScalar>() {
  return "a number, a string, true or false";
}
template <>
const char* expected<std::pair<std::string, double>>() {
  return "[pattern, number]";
}
template <>
const char* expected<std::pair<std::string, std::string>>() {
  return "[string, string]";
}
template <class T>
const char* expected() {
  return "a list";
}

// ---- conversions

template <>
std::optional<Wrong> convert(const Node& node, bool& out) {
  if (node.kind == Node::Kind::scalar && node.style != Node::Style::quoted) {
    if (node.text == "true" || node.text == "false") {
      out = node.text == "true";
      return std::nullopt;
    }
  }
  std::string hint;
  if (node.kind == Node::Kind::scalar) {
    std::string word;
    for (const char c : node.text) word += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    if (word == "yes" || word == "on" || word == "true" || word == "y") hint = " (write true)";
    if (word == "no" || word == "off" || word == "false" || word == "n") hint = " (write false)";
    if (node.style == Node::Style::quoted && !hint.empty()) hint = " (remove the quotes)";
  }
  return wrong(node, expected<bool>(), hint);
}

template <>
std::optional<Wrong> convert(const Node& node, double& out) {
  if (!maybe_number(node)) return wrong(node, expected<double>(), number_hint(node));
  if (is_infinity(node.text)) return wrong(node, "a finite number", "");
  // Many numbers are used as float32, so a number that is infinite in float32 is always an error.
  if (!parse(node.text, out) || std::abs(out) > std::numeric_limits<float>::max())
    return wrong(node, expected<double>(), " (out of range)");
  return std::nullopt;
}

template <>
std::optional<Wrong> convert(const Node& node, int64_t& out) {
  if (!maybe_number(node)) return wrong(node, expected<int64_t>(), number_hint(node));
  if (node.text.find_first_of(".eE") == std::string::npos) {
    if (!parse(node.text, out)) return wrong(node, expected<int64_t>(), " (out of range)");
    return std::nullopt;
  }
  // 1e3 is an integer, but 5.0 is not: the decimal point marks a real number.
  double value = 0;
  const bool exponent = node.text.find_first_of("eE") != std::string::npos;
  if (!exponent || !parse(node.text, value) || value != std::floor(value))
    return wrong(node, expected<int64_t>(), "");
  if (std::abs(value) > 0x1p53) {  // a double skips integers
    const bool fits = std::abs(value) < 0x1p63;
    return wrong(node, expected<int64_t>(),
                 fits ? " (write all its digits, because it is beyond 2^53)" : " (out of range)");
  }
  out = static_cast<int64_t>(value);
  return std::nullopt;
}

template <>
std::optional<Wrong> convert(const Node& node, std::string& out) {
  if (node.kind != Node::Kind::scalar || node.style == Node::Style::literal) {
    return wrong(node, expected<std::string>(), "");
  }
  out = node.text;
  return std::nullopt;
}

template <class First, class Second>
std::optional<Wrong> convert_pair(const Node& node, std::pair<First, Second>& out) {
  if (node.kind != Node::Kind::list || node.list.size() != 2) {
    return wrong(node, expected<std::pair<First, Second>>(), "");
  }
  if (auto bad = convert(*node.list[0], out.first)) return bad;
  return convert(*node.list[1], out.second);
}

template <>
std::optional<Wrong> convert(const Node& node, std::pair<std::string, double>& out) {
  return convert_pair(node, out);
}

template <>
std::optional<Wrong> convert(const Node& node, std::pair<std::string, std::string>& out) {
  return convert_pair(node, out);
}

// As in Python, 1e3 is a double here, not an integer.
template <>
std::optional<Wrong> convert(const Node& node, AnyScalar& out) {
  const bool number = maybe_number(node);
  if (number && node.text.find_first_of(".eE") == std::string::npos) {
    return convert(node, out.emplace<int64_t>());
  }
  if (number) return convert(node, out.emplace<double>());
  if (!convert(node, out.emplace<bool>())) return std::nullopt;
  if (!convert(node, out.emplace<std::string>())) return std::nullopt;
  return wrong(node, expected<AnyScalar>(), number_hint(node));
}

template <>
std::optional<Wrong> convert(const Node& node, std::optional<int64_t>& out) {
  if (node.kind == Node::Kind::null) {
    out = std::nullopt;
    return std::nullopt;
  }
  return convert(node, out.emplace());
}

template <class Item>
std::optional<Wrong> convert_list(const Node& node, std::vector<Item>& out) {
  if (node.kind != Node::Kind::list) return wrong(node, expected<std::vector<Item>>(), "");
  out.clear();
  for (size_t i = 0; i < node.list.size(); ++i) {
    Item item{};
    if (auto bad = convert(*node.list[i], item)) {
      bad->suffix = fmt::format("[{}]{}", i, bad->suffix);
      return bad;
    }
    out.push_back(std::move(item));
  }
  return std::nullopt;
}

template <class T>
std::optional<Wrong> convert(const Node& node, T& out) {
  return convert_list(node, out);
}

// ---- back to nodes

template <>
std::shared_ptr<Node> to_node(const bool& value) {
  return scalar_node(value ? "true" : "false", Node::Style::plain);
}
template <>
std::shared_ptr<Node> to_node(const int64_t& value) {
  return scalar_node(fmt::format("{}", value), Node::Style::plain);
}
template <>
std::shared_ptr<Node> to_node(const double& value) {
  return scalar_node(fmt::format("{}", value), Node::Style::plain);
}
template <>
std::shared_ptr<Node> to_node(const std::string& value) {
  return scalar_node(value, Node::Style::quoted);
}
template <>
std::shared_ptr<Node> to_node(const AnyScalar& value) {
  return std::visit([](const auto& kind) { return to_node(kind); }, value);
}
template <class First, class Second>
std::shared_ptr<Node> pair_node(const std::pair<First, Second>& value) {
  auto node = std::make_shared<Node>();
  node->kind = Node::Kind::list;
  node->list = {to_node(value.first), to_node(value.second)};
  return node;
}
template <>
std::shared_ptr<Node> to_node(const std::pair<std::string, double>& value) {
  return pair_node(value);
}
template <>
std::shared_ptr<Node> to_node(const std::pair<std::string, std::string>& value) {
  return pair_node(value);
}
template <>
std::shared_ptr<Node> to_node(const std::optional<int64_t>& value) {
  return value ? to_node(*value) : std::make_shared<Node>();
}
template <class T>
std::shared_ptr<Node> to_node(const T& value) {
  auto node = std::make_shared<Node>();
  node->kind = Node::Kind::list;
  for (const typename T::value_type& item : value) node->list.push_back(to_node(item));
  return node;
}

using Wrongness = std::optional<Wrong>;
using NumberPairs = std::vector<std::pair<std::string, double>>;
using StringPairs = std::vector<std::pair<std::string, std::string>>;
using Optionals = std::vector<std::optional<int64_t>>;
template Wrongness convert(const Node&, Optionals&);
template const char* expected<Optionals>();
template std::shared_ptr<Node> to_node(const Optionals&);
template Wrongness convert(const Node&, std::vector<bool>&);
template const char* expected<std::vector<bool>>();
template std::shared_ptr<Node> to_node(const std::vector<bool>&);
template Wrongness convert(const Node&, std::vector<int64_t>&);
template const char* expected<std::vector<int64_t>>();
template std::shared_ptr<Node> to_node(const std::vector<int64_t>&);
template Wrongness convert(const Node&, std::vector<double>&);
template const char* expected<std::vector<double>>();
template std::shared_ptr<Node> to_node(const std::vector<double>&);
template Wrongness convert(const Node&, std::vector<std::string>&);
template const char* expected<std::vector<std::string>>();
template std::shared_ptr<Node> to_node(const std::vector<std::string>&);
template Wrongness convert(const Node&, NumberPairs&);
template const char* expected<NumberPairs>();
template std::shared_ptr<Node> to_node(const NumberPairs&);
template Wrongness convert(const Node&, StringPairs&);
template const char* expected<StringPairs>();
template std::shared_ptr<Node> to_node(const StringPairs&);

}  // namespace bv
