#include "lib/help/schema.h"

#include <nlohmann/json.hpp>
#include <set>

#include "lib/config/load_config.h"
#include "lib/help/catalog.h"
#include "lib/help/key_type.h"
#include "lib/input/prepare_data.h"
#include "lib/tasks/task.h"

namespace bv {
namespace {

using Json = nlohmann::ordered_json;

// Returns the kind of plug-in that `key` of the mapping at `place` names; null for other keys.
const PluginKind* kind_named_by(const std::string& place, std::string_view key) {
  for (const PluginKind& kind : plugin_kinds()) {
    if (kind.selector == key && place == (kind.inside ? kind.mapping : "")) return &kind;
  }
  return nullptr;
}

Json names_of(const PluginKind& kind) {
  Json names = Json::array();
  for (const HelpTable* table : plugins_of(kind)) names.push_back(table->plugin);
  return names;
}

// Returns whether a plug-in may also have any other name, such as that of a TFDS data set.
bool takes_other_names(const PluginKind& kind) { return kind.mapping == "input.data"; }
constexpr const char* kPluginOfOtherNames = "tfds";

Json null_schema() { return {{"type", "null"}}; }

// Returns the schema of the key that names a plug-in.
Json selector_schema(const PluginKind& kind) {
  Json names = names_of(kind);
  if (kind.mapping == "loss") {
    for (const char* name : kNumberLosses) names.push_back(name);
  }
  if (!takes_other_names(kind))
    return {{"anyOf", {{{"enum", names}}, variable_schema(), null_schema()}}};
  for (const std::string& name : known_tfds_names()) names.push_back(name);
  return {{"anyOf", {{{"enum", names}}, {{"type", "string"}}, null_schema()}}};
}

// Returns the value of `yaml`.
Json parse_value(std::string_view yaml) {
  const std::string text = parse_config("value: " + std::string(yaml), "default").json();
  return Json::parse(text)["value"];
}

std::string path_below(const std::string& mapping, std::string_view key) {
  return mapping.empty() ? std::string(key) : mapping + "." + std::string(key);
}

// Adds the keys of `table` to a schema whose plug-in, if any, is that of `owner`.
void add_keys(Json& schema, const HelpTable& table) {
  for (const KeyText& key : table.keys) {
    for (const std::string& name : expand_braces(key.name)) {
      Json property;
      if (name == "*") {  // a user-defined name
        schema["additionalProperties"] =
            type_schema(parse_key_type(key.type), path_below(table.mapping, name));
        continue;
      }
      if (const PluginKind* kind = kind_named_by(table.place, name)) {
        property = selector_schema(*kind);
      } else if (name == "loss_name") {  // of an evaluator: not those of `task: regress`
        property = {
            {"anyOf",
             {{{"enum", names_of(*kind_named_by("", "loss"))}}, variable_schema(), null_schema()}}};
      } else {
        property = type_schema(parse_key_type(key.type), path_below(table.mapping, name));
      }
      // In draft 7, siblings of "$ref" are ignored.
      Json described = {{"description", std::string(key.meaning)}};
      if (has_literal_default(key)) described["default"] = parse_value(key.fallback);
      described.update(property);
      schema["properties"][name] = described;
      // An included file or --set may add what a nested mapping lacks.
      if (key.fallback == "required" && name == key.name && table.place.empty())
        schema["required"].push_back(name);
    }
  }
}

Json object_schema(const std::string& about) {
  Json schema = Json::object();
  if (!about.empty()) schema["description"] = about;
  schema["type"] = "object";
  schema["properties"] = Json::object();
  schema["additionalProperties"] = false;
  return schema;
}

Json plugin_schema(const HelpTable& plugin) {
  Json schema = object_schema(std::string(plugin.text.about));
  if (const HelpTable* common = find_help_table(plugin.mapping)) add_keys(schema, *common);
  add_keys(schema, plugin);
  return schema;
}

Json reference(const std::string& place) { return {{"$ref", "#/definitions/" + place}}; }

// Returns {"if": the selector names the plug-in, "then": consequence}.
Json when_named(const PluginKind& kind, const std::string& plugin, const Json& consequence) {
  const std::string selector(kind.selector);
  return {{"if", {{"properties", {{selector, {{"const", plugin}}}}}, {"required", {selector}}}},
          {"then", consequence}};
}

// Returns the keys of a mapping, whatever the plug-in that it names.
Json keys_of(const PluginKind& kind) {
  std::set<std::string> names;
  const auto add = [&](const HelpTable& table) {
    for (const KeyText& key : table.keys) {
      for (const std::string& name : expand_braces(key.name)) names.insert(name);
    }
  };
  if (const HelpTable* common = find_help_table(kind.mapping)) add(*common);
  for (const HelpTable* plugin : plugins_of(kind)) add(*plugin);
  return names;
}

// Returns the schema of a mapping that names its plug-in itself.
Json choice_schema(const PluginKind& kind) {
  const HelpTable* common = find_help_table(kind.mapping);
  const std::string selector(kind.selector);
  Json schema = {{"type", "object"}, {"properties", {{selector, selector_schema(kind)}}}};
  std::string fallback;
  if (common != nullptr) {
    schema["description"] = std::string(common->text.about);
    for (const KeyText& key : common->keys) {
      if (key.name == selector) fallback = key.fallback;
    }
  }
  schema["allOf"] = Json::array();
  Json unnamed = Json::object();  // the plug-in may then be the default, or that of another file
  unnamed["not"]["required"] = Json::array({selector});
  unnamed["not"]["properties"][selector]["not"] = null_schema();
  Json otherwise = Json::object();
  otherwise["propertyNames"]["enum"] = keys_of(kind);
  for (const HelpTable* plugin : plugins_of(kind)) {
    schema["allOf"].push_back(when_named(kind, plugin->plugin, reference(plugin->place)));
    if (plugin->plugin == fallback) otherwise = reference(plugin->place);
    if (takes_other_names(kind) && plugin->plugin == kPluginOfOtherNames) {
      Json names = names_of(kind);
      names.push_back(nullptr);
      schema["allOf"].push_back(
          {{"if",
            {{"properties", {{selector, {{"not", {{"enum", names}}}}}}}, {"required", {selector}}}},
           {"then", reference(plugin->place)}});
    }
  }
  schema["allOf"].push_back({{"if", unnamed}, {"then", otherwise}});
  return schema;
}

}  // namespace

nlohmann::ordered_json config_schema() {
  Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                 {"title", "bvtrain config"}};
  const HelpTable* top = find_help_table("");
  Json root = object_schema(top ? std::string(top->text.about) : "");
  if (top != nullptr) add_keys(root, *top);
  // An included file may contain the required keys.
  if (root.contains("required")) {
    root["if"] = {{"not", {{"required", {"include"}}}}};
    root["then"] = {{"required", root["required"]}};
    root.erase("required");
  }
  root["allOf"] = Json::array();
  Json definitions = Json::object();
  for (const HelpTable& table : help_tables()) {
    const bool call = table.mapping == "pp" || (table.kind == nullptr && !table.plugin.empty());
    if (table.place.empty() || call) continue;
    if (table.kind != nullptr) {
      if (table.mapping == "loss") continue;
      definitions[table.place] = plugin_schema(table);
      if (!table.kind->inside) {
        Json keys = Json::object();
        keys["properties"][table.mapping]["anyOf"] =
            Json::array({reference(table.place), null_schema()});
        root["allOf"].push_back(when_named(*table.kind, table.plugin, keys));
      }
    } else {
      Json mapping = object_schema(std::string(table.text.about));
      add_keys(mapping, table);
      definitions[table.place] = mapping;
    }
  }
  for (const PluginKind& kind : plugin_kinds()) {
    const std::string mapping(kind.mapping);
    if (kind.inside) definitions[mapping] = choice_schema(kind);
    // The plug-in's name is a sibling key of this mapping: the root's conditions are more specific.
    if (!kind.inside && (mapping == "model" || mapping == "optax" || mapping == "task_kw"))
      definitions[mapping] = {{"type", "object"}};
  }
  schema.update(root);
  definitions["variable"] = {{"description", "An environment variable."},
                             {"type", "string"},
                             {"pattern", "\\$\\{[A-Za-z_]"}};
  schema["definitions"] = definitions;
  return schema;
}

}  // namespace bv
