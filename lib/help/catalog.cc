#include "lib/help/catalog.h"

#include <algorithm>

#include "lib/help/key_type.h"
#include "lib/util/text.h"

namespace bv {
namespace {

HelpTable make_table(const KeyTable& table) {
  HelpTable made;
  made.place = table.place;
  const size_t colon = made.place.find(": ");
  made.mapping = made.place.substr(0, colon);
  if (colon != std::string::npos) made.plugin = made.place.substr(colon + 2);
  for (const PluginKind& kind : plugin_kinds()) {
    if (!made.plugin.empty() && kind.mapping == made.mapping) made.kind = &kind;
  }
  made.text = table.text;
  return made;
}

// Returns a value, which is YAML, as an argument of a call.
std::string as_argument(const std::string& value) {
  if (value == "true" || value == "false") return value == "true" ? "True" : "False";
  const bool word = std::isalpha(static_cast<unsigned char>(value[0])) != 0;
  return word ? '"' + value + '"' : value;
}

}  // namespace

const std::vector<PluginKind>& plugin_kinds() {
  static const std::vector<PluginKind> kinds = {
      {"model", "model", "models", "model_name"},
      {"input.data", "source", "sources", "name", true},
      {"pp", "op", "ops", ""},
      {"evals.*", "evaluator", "evals", "type", true},
      {"optax", "optimizer", "optimizers", "optax_name"},
      {"schedule", "schedule", "schedules", "decay_type", true},
      {"loss", "loss", "losses", "loss"},
      {"task_kw", "task", "tasks", "task"},
  };
  return kinds;
}

const std::vector<HelpTable>& help_tables() {
  static const std::vector<HelpTable> joined = [] {
    std::vector<HelpTable> all;
    for (const KeyTable& table : key_tables()) {
      if (all.empty() || all.back().place != table.place) all.push_back(make_table(table));
      HelpTable& last = all.back();
      if (last.text.about.empty()) last.text = table.text;
      last.keys.insert(last.keys.end(), table.keys.begin(), table.keys.end());
    }
    return all;
  }();
  return joined;
}

const HelpTable* find_help_table(std::string_view place) {
  for (const HelpTable& table : help_tables()) {
    if (table.place == place) return &table;
  }
  return nullptr;
}

std::vector<const HelpTable*> plugins_of(const PluginKind& kind) {
  std::vector<const HelpTable*> found;
  for (const HelpTable& table : help_tables()) {
    if (table.kind == &kind) found.push_back(&table);
  }
  return found;
}

std::vector<std::string> expand_braces(std::string_view name) {
  const size_t open = name.find('{'), close = name.find('}');
  if (open == std::string_view::npos || close < open) return {std::string(name)};
  std::vector<std::string> names;
  for (const std::string& part : split(name.substr(open + 1, close - open - 1), ','))
    names.push_back(std::string(name.substr(0, open)) + part + std::string(name.substr(close + 1)));
  return names;
}

std::string key_path(const HelpTable& table, std::string_view name) {
  const std::string& owner = table.mapping == "pp" ? table.plugin : table.mapping;
  return owner.empty() ? std::string(name) : owner + "." + std::string(name);
}

std::string big_vision_name(const HelpTable& table, const KeyText& key) {
  if (key.big_vision == "-" || (key.big_vision.empty() && table.text.big_vision.empty())) return "";
  return std::string(key.big_vision.empty() ? key.name : key.big_vision);
}

bool has_literal_default(const KeyText& key) {
  return key.fallback != "required" && key.fallback != "none" && !key.fallback.starts_with("= ");
}

std::string default_in_words(const HelpTable& table, const KeyText& key) {
  if (key.fallback.starts_with("= ")) return std::string(key.fallback.substr(2));
  const std::string text(key.fallback);
  return table.mapping == "pp" && has_literal_default(key) ? as_argument(text) : text;
}

std::string example_in_words(const HelpTable& table, const KeyText& key) {
  if (key.example.empty()) return "";
  const std::string name = expand_braces(key.name)[0], value(key.example);
  return table.mapping == "pp" ? name + "=" + as_argument(value) : name + ": " + value;
}

std::string type_of_key(const HelpTable& table, const KeyText& key) {
  std::string words = type_in_words(parse_key_type(key.type));
  const std::string yaml = "true or false";
  const size_t at = words.find(yaml);
  if (table.mapping == "pp" && at != std::string::npos)
    words.replace(at, yaml.size(), "True or False");
  return words;
}

std::set<std::string> help_words() {
  std::set<std::string> words;
  for (const HelpTable& table : help_tables()) {
    if (!table.plugin.empty()) words.insert(table.plugin);
    for (const KeyText& key : table.keys) {
      for (const std::string& name : expand_braces(key.name)) words.insert(name);
    }
  }
  for (const PluginKind& kind : plugin_kinds()) words.emplace(kind.plural);
  return words;
}

std::string first_sentence(std::string_view text) {
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] == '.' && text[i + 1] == ' ' && i + 2 < text.size() &&
        (std::isupper(text[i + 2]) != 0 || text[i + 2] == '\'' || text[i + 2] == '`'))
      return std::string(text.substr(0, i + 1));
  }
  return std::string(text);
}

}  // namespace bv
