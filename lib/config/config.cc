#include "lib/config/config.h"

#include <algorithm>
#include <type_traits>

#include "lib/config/document.h"
#include "lib/config/familiar_words.h"
#include "lib/config/node.h"
#include "lib/config/suggest.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Returns "lib/input/loader/loader.cc:31", regardless of the folder of compilation.
std::string source_text(const std::source_location& where) {
  const std::string file = std::string("/") + where.file_name();
  size_t begin = 0;
  for (const char* folder : {"/lib/", "/models/", "/app/", "/test/"}) {
    const size_t found = file.rfind(folder);
    if (found != std::string::npos) begin = std::max(begin, found);
  }
  return fmt::format("{}:{}", file.substr(begin + 1), where.line());
}

template <class T>
constexpr bool kIsText =
    std::is_same_v<T, std::string> || std::is_same_v<T, std::vector<std::string>> ||
    std::is_same_v<T, std::vector<std::pair<std::string, std::string>>>;

// Represents the fallback of maybe().
const std::shared_ptr<Node>& nothing() {
  static const auto node = std::make_shared<Node>();
  return node;
}

// Whether the value of `evals` is a list of evaluators, which therefore have no names.
bool lists_evaluators(const Node& evals) {
  return std::any_of(evals.list.begin(), evals.list.end(), [](const auto& item) {
    return item->entry("type") != nullptr || item->entry("data") != nullptr;
  });
}

}  // namespace

// ---- Node

const Node::Entry* Node::entry(std::string_view key) const {
  for (const Entry& e : map) {
    if (e.key == key) return &e;
  }
  return nullptr;
}

std::shared_ptr<Node> make_map(const Place& place) {
  auto node = std::make_shared<Node>();
  node->kind = Node::Kind::map;
  node->place = place;
  return node;
}

// ---- Config: finding and reading

Config::Config() : Config(make_map({}), std::make_shared<Document>(), "") {}

Config::Config(std::shared_ptr<Node> node, std::shared_ptr<Document> document, std::string path)
    : node_(std::move(node)), document_(std::move(document)), path_(std::move(path)) {}

std::shared_ptr<Node> Config::find(std::string_view key) const {
  const Node::Entry* entry = node_->entry(key);
  return entry == nullptr ? nullptr : entry->value;
}

std::shared_ptr<Node> Config::read(std::string_view key, std::shared_ptr<Node> fallback,
                                   bool section, std::source_location where, bool text) const {
  std::shared_ptr<Node> value = find(key);
  const auto& positional = node_->positional;
  if (node_->taken < positional.size()) {
    if (value == nullptr) {
      value = positional[node_->taken++];
      node_->map.push_back({std::string(key), value->place, value});
    } else if (std::find(positional.begin(), positional.end(), value) == positional.end()) {
      // The arguments are read in the order of the signature, so this one has both.
      document_->record(
          error_at(node_->entry(key)->place, "", "",
                   fmt::format("argument '{}' is given by position and by name", printable(key))));
      ++node_->taken;
    }
  }
  const bool optional = fallback == nothing();
  if (optional) fallback = nullptr;
  document_->read({path_, std::string(key), value, std::move(fallback), source_text(where), false,
                   section, optional, text});
  return absent(value) ? nullptr : value;
}

template <class T>
T Config::get(std::string_view key, Caller caller) const {
  const auto value = read(key, nullptr, false, caller.at, kIsText<T>);
  if (value == nullptr) missing(key, expected<T>());
  T out{};
  if (const auto bad = convert(*value, out)) {
    give_up(error_of_value(*bad, key));
  }
  return out;
}

template <class T>
std::optional<T> Config::convert_or_record(const Node& value, std::string_view key) const {
  T out{};
  const auto bad = convert(value, out);
  if (!bad) return out;
  document_->record(error_of_value(*bad, key));
  return std::nullopt;
}

template <class T>
T Config::get(std::string_view key, T fallback, std::source_location where) const {
  const auto value = read(key, to_node(fallback), false, where, kIsText<T>);
  if (value == nullptr) return fallback;
  auto out = convert_or_record<T>(*value, key);
  return out ? std::move(*out) : std::move(fallback);
}

std::string Config::get(std::string_view key, const char* fallback,
                        std::source_location where) const {
  return get(key, std::string(fallback), where);
}

template <class T>
std::optional<T> Config::maybe(std::string_view key, std::source_location where) const {
  const auto value = read(key, nothing(), false, where, kIsText<T>);
  return value == nullptr ? std::nullopt : convert_or_record<T>(*value, key);
}

std::string Config::word(std::string_view key, std::string_view fallback,
                         const std::vector<std::string>& words, std::source_location where) const {
  const std::string value = get(key, std::string(fallback), where);
  if (value == fallback || std::find(words.begin(), words.end(), value) != words.end())
    return value;
  const FamiliarWord familiar = familiar_name(key, value, words);
  const std::string near = familiar.ours.empty() ? nearest(value, words) : familiar.ours;
  problem(key, fmt::format("expected one of {}, got '{}'{}", join(words, ", "), printable(value),
                           near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near)));
  return std::string(fallback);
}

bool Config::keep_null(std::string_view key) const {
  document_->asked(path_, key);
  document_->own_nulls.insert(join_path(path_, key));
  if (const auto value = find(key)) return value->kind == Node::Kind::null;
  for (const Node::Entry& entry : node_->removed) {
    if (entry.key != key) continue;
    node_->map.push_back(entry);
    return true;
  }
  return false;
}

using Where = std::source_location;
using Key = std::string_view;
using Strings = std::vector<std::string>;
using NumberPairs = std::vector<std::pair<std::string, double>>;
using StringPairs = std::vector<std::pair<std::string, std::string>>;
using Optionals = std::vector<std::optional<int64_t>>;
template Optionals Config::get(Key, Caller) const;
template bool Config::get(Key, Caller) const;
template bool Config::get(Key, bool, Where) const;
template std::optional<bool> Config::maybe(Key, Where) const;
template int64_t Config::get(Key, Caller) const;
template int64_t Config::get(Key, int64_t, Where) const;
template std::optional<int64_t> Config::maybe(Key, Where) const;
template double Config::get(Key, Caller) const;
template double Config::get(Key, double, Where) const;
template std::optional<double> Config::maybe(Key, Where) const;
template std::string Config::get(Key, Caller) const;
template std::string Config::get(Key, std::string, Where) const;
template std::optional<std::string> Config::maybe(Key, Where) const;
template AnyScalar Config::get(Key, Caller) const;
template AnyScalar Config::get(Key, AnyScalar, Where) const;
template std::vector<bool> Config::get(Key, Caller) const;
template std::vector<bool> Config::get(Key, std::vector<bool>, Where) const;
template std::optional<std::vector<bool>> Config::maybe(Key, Where) const;
template std::vector<int64_t> Config::get(Key, Caller) const;
template std::vector<int64_t> Config::get(Key, std::vector<int64_t>, Where) const;
template std::optional<std::vector<int64_t>> Config::maybe(Key, Where) const;
template std::vector<double> Config::get(Key, Caller) const;
template std::vector<double> Config::get(Key, std::vector<double>, Where) const;
template std::optional<std::vector<double>> Config::maybe(Key, Where) const;
template Strings Config::get(Key, Caller) const;
template Strings Config::get(Key, Strings, Where) const;
template std::optional<Strings> Config::maybe(Key, Where) const;
template NumberPairs Config::get(Key, Caller) const;
template NumberPairs Config::get(Key, NumberPairs, Where) const;
template std::optional<NumberPairs> Config::maybe(Key, Where) const;
template StringPairs Config::get(Key, Caller) const;
template StringPairs Config::get(Key, StringPairs, Where) const;
template std::optional<StringPairs> Config::maybe(Key, Where) const;

// ---- structure

bool Config::has(std::string_view key) const {
  document_->asked(path_, key);
  return !absent(find(key));
}

bool Config::is_map(std::string_view key) const {
  return has(key) && find(key)->kind == Node::Kind::map;
}

bool Config::is_bool(std::string_view key) const {
  bool ignored;
  return has(key) && !convert(*find(key), ignored);
}

bool Config::is_text(std::string_view key, std::string_view text) const {
  return has(key) && find(key)->kind == Node::Kind::scalar && find(key)->text == text;
}

void Config::replace(std::string_view key, int64_t value) const {
  for (Node::Entry& entry : node_->map) {
    if (entry.key != key) continue;
    const auto number = to_node(value);
    number->place = entry.value->place;
    entry.value = number;
    document_->replaced(path_, key, number);
  }
}

bool Config::was_replaced(std::string_view key) const {
  return document_->was_replaced(path_, key);
}

bool Config::is_list(std::string_view key) const {
  document_->asked(path_, key);
  std::shared_ptr<Node> value = find(key);
  // In a pp call, the next read takes the next positional argument.
  if (value == nullptr && positional_left() > 0) value = node_->positional[node_->taken];
  return value != nullptr && value->kind == Node::Kind::list;
}

Config Config::section(std::string_view key, std::source_location where) const {
  const auto value = read(key, nullptr, true, where);
  const std::string path = join_path(path_, key);
  if (value != nullptr && value->kind == Node::Kind::map) return Config(value, document_, path);
  if (value != nullptr) {
    const std::string hint =
        path == "evals" && lists_evaluators(*value)
            ? " (an evaluator needs a name: write 'evals: {val: {type: ..., ...}}')"
            : mapping_hint(*value);
    const Error error = error_at(
        value->place, key, "",
        fmt::format("{}, got {}{}", hint.empty() ? expected_mapping(path) : "expected a mapping",
                    describe(*value), hint));
    document_->record(error);
    document_->no_mappings.emplace(path, error);
  }
  return Config(make_map(place(key)), document_, path);
}

std::vector<Config> Config::sections(std::string_view key, std::source_location where) const {
  std::vector<Config> all;
  const auto value = read(key, nullptr, true, where);
  if (value == nullptr) return all;
  if (value->kind != Node::Kind::list) {
    problem(key, fmt::format("expected a list of mappings, got {}", describe(*value)));
    return all;
  }
  for (size_t i = 0; i < value->list.size(); ++i) {
    const auto& item = value->list[i];
    const std::string suffix = fmt::format("[{}]", i);
    if (item->kind == Node::Kind::map) {
      all.emplace_back(item, document_, join_path(path_, key) + suffix);
    } else {
      document_->record(error_at(item->place, key, suffix,
                                 fmt::format("expected a mapping, got {}", describe(*item))));
    }
  }
  return all;
}

std::vector<std::pair<std::string, Config>> Config::items(std::source_location where) const {
  std::vector<std::pair<std::string, Config>> all;
  for (const Node::Entry& entry : node_->map) {
    if (absent(entry.value)) {
      document_->asked(path_, entry.key);
    } else {
      all.emplace_back(entry.key, section(entry.key, where));
      if (entry.value->kind != Node::Kind::map) all.pop_back();
    }
  }
  return all;
}

std::vector<std::string> Config::keys() const {
  std::vector<std::string> all;
  for (const Node::Entry& entry : node_->map) all.push_back(entry.key);
  return all;
}

size_t Config::positional_left() const { return node_->positional.size() - node_->taken; }

std::vector<std::string> Config::positional_strings() const {
  document_->asked(path_, "*keys");  // for the signature in messages
  std::vector<std::string> all;
  for (; node_->taken < node_->positional.size(); ++node_->taken) {
    if (auto text = convert_or_record<std::string>(*node_->positional[node_->taken], "")) {
      all.push_back(std::move(*text));
    }
  }
  return all;
}

// ---- texts

void Config::explain_as(std::string_view key, std::string_view meaning) const {
  document_->explain_as(path_, key, meaning);
}

std::string Config::yaml() const { return to_yaml(*node_, false); }
std::string Config::json() const { return to_json(*node_); }
std::string Config::json(std::string_view key) const { return to_json(*find(key)); }
std::string Config::resolved_json() const { return to_json(*effective(*document_, node_, path_)); }

// ---- the whole document

std::string explain(const Config& config) { return explain_lines(*config.document_); }

std::string resolved_yaml(const Config& config) {
  const Document& document = *config.document_;
  const auto root = document.root != nullptr ? document.root : config.node_;
  return to_yaml(*effective(document, root, ""), true);
}

}  // namespace bv
