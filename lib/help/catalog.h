// All tables of keys (lib/config/key_table.h), joined by place, with the kinds of plug-ins that
// they describe. All of bvtrain's descriptions of its keys come from here.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/key_table.h"

namespace bv {

// A kind of plug-in that has tables.
struct PluginKind {
  std::string_view mapping;   // of its tables: "model"
  std::string_view kind;      // "model"
  std::string_view plural;    // "models", as in --list
  std::string_view selector;  // the key that names the plug-in: "model_name"
  // Whether the selecting key is inside the mapping that it selects keys for, and not next to that
  // mapping.
  bool inside = false;
};
const std::vector<PluginKind>& plugin_kinds();

// The keys at one place.
struct HelpTable {
  std::string place;                 // "", "input", "model: vit"
  std::string mapping;               // "", "input", "model"
  std::string plugin;                // "vit"; empty for the table of a mapping
  const PluginKind* kind = nullptr;  // null for the table of a mapping
  TableText text;
  std::vector<KeyText> keys;  // as declared: braces are not expanded
};
const std::vector<HelpTable>& help_tables();               // sorted by place
const HelpTable* find_help_table(std::string_view place);  // null if there is none
std::vector<const HelpTable*> plugins_of(const PluginKind& kind);

// Expands the braces in a name: "x_{a,b}" gives x_a and x_b.
std::vector<std::string> expand_braces(std::string_view name);

// Returns the path of a key in a config: "lr", "input.batch_size", "model.depth", "evals.*.pp_fn".
// For an op: "resize.size".
std::string key_path(const HelpTable& table, std::string_view name);

// Returns what big_vision calls the key; empty if it has no such key.
std::string big_vision_name(const HelpTable& table, const KeyText& key);

// Returns "required", "none", how the default is computed ("4 * width"), or the default as YAML,
// and for an op as an argument of a call: False, "image".
std::string default_in_words(const HelpTable& table, const KeyText& key);
// Returns the type of the key in words; see type_in_words().
std::string type_of_key(const HelpTable& table, const KeyText& key);
// Returns the example of the key as one writes it: "lr: 0.001", and for an op as an argument of a
// call: new_shape=[2, -1]. Empty if there is none.
std::string example_in_words(const HelpTable& table, const KeyText& key);
// Whether the default is a value, which can be written in a config.
bool has_literal_default(const KeyText& key);

// Returns the names of plug-ins, kinds and keys: words that `bvtrain help` explains.
std::set<std::string> help_words();

// Returns the first sentence of a text.
std::string first_sentence(std::string_view text);

}  // namespace bv
