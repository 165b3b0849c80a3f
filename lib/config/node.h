// Private to lib/config: the tree from which a config is read.
//
// Nodes are shared (by YAML aliases and included files) and never changed once a tree is loaded,
// with three exceptions: the node of a pp call binds its positional arguments to names as they are
// read, Config::replace() gives an entry of a mapping another node, and Config::keep_null() gives a
// mapping back an entry that it had removed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/load_config.h"
#include "lib/util/place.h"
#include "lib/util/printable.h"

namespace bv {

struct NodeEntry {
  std::string key;
  Place place;  // of the key
  std::shared_ptr<Node> value;
};

// One YAML value, or one argument of a pp call, with its place.
struct Node {
  using Entry = NodeEntry;
  enum class Kind { null, scalar, list, map };
  // How a scalar was written. A plain scalar of YAML may be a number or a boolean, a quoted one is
  // a string, and a literal is a number or boolean of Python in a pp call, never a string.
  enum class Style { plain, quoted, literal };

  Kind kind = Kind::null;
  Style style = Style::plain;
  std::string text;  // of a scalar
  Place place;       // of the value; with an empty file, the node is a default
  // If the file holds `text` letter for letter: how many columns after `place` it begins (1 after a
  // quote). -1 if it does not, for example after an escape or an environment variable.
  int shift = -1;
  bool folded = false;  // an unquoted scalar of several lines, which YAML joins by spaces
  std::vector<std::shared_ptr<Node>> list;  // the items of a list
  std::vector<Entry> map;                   // the entries of a mapping; a call's keyword arguments
  // Of a mapping: the keys that a null in an including file or on the command line removed.
  // Config::keep_null() finds them here, and a message that a key is missing finds its place.
  std::vector<Entry> removed;
  bool is_call = false;
  std::vector<std::shared_ptr<Node>> positional;  // the positional arguments of a call
  size_t taken = 0;                               // how many of them were read

  const Entry* entry(std::string_view key) const;  // null if there is none
};

std::shared_ptr<Node> make_map(const Place& place);

// A null counts as absent.
inline bool absent(const std::shared_ptr<Node>& node) {
  return node == nullptr || node->kind == Node::Kind::null;
}

// Returns where an entry without a value is written: the mark of an empty value may be in the next
// line.
inline const Place& place_of_empty(const NodeEntry& entry) {
  const bool from_file = entry.value->place.line > 0;
  return from_file ? entry.place : entry.value->place;
}

// ---- Values (value.cc)

// Why a node cannot be converted to the requested type.
struct Wrong {
  const Node* node;    // the value, or the item of a list, that is at fault
  std::string suffix;  // the path to it: "[2]", or "" for the value itself
  std::string why;
};
// Converts a node to a value; returns what is wrong if it cannot.
template <class T>
std::optional<Wrong> convert(const Node& node, T& out);
template <class T>
const char* expected();  // the type in words: "a number"
template <class T>
std::shared_ptr<Node> to_node(const T& value);
bool is_number(std::string_view text);
// Returns what to say about a node that should be a mapping: " (a space must follow the ':')". May
// be empty.
std::string mapping_hint(const Node& node);
// Returns "'fast'", "a list" or "null": one line, whatever the node holds.
std::string describe(const Node& node);

// ---- Text forms (emit.cc)

std::string to_yaml(const Node& node, bool with_origins);
std::string to_flow(const Node& node);  // YAML on one line
std::string to_json(const Node& node);
// Returns where a value comes from: "vit.yaml:12", "--set lr=0.1" or "default".
std::string origin(const Place& place);

// ---- Loading (load.cc, merge.cc)

enum class YamlFrom {
  file,
  json,          // of Config::json(): environment variables are not substituted
  command_line,  // nor are they here, and all places are just the name
};
// Returns the root of a YAML text; null for an empty text. Problems that leave the rest readable
// are appended to `problems`; others are thrown.
std::shared_ptr<Node> parse_yaml(std::string_view text, const std::string& name, YamlFrom from,
                                 std::vector<Error>& problems);
// Returns `over` merged over `base`, as described at load_config().
std::shared_ptr<Node> merged(const std::shared_ptr<Node>& base, const std::shared_ptr<Node>& over);
void apply_overrides(std::shared_ptr<Node>& root, const std::vector<Override>& overrides,
                     std::vector<Error>& problems);

}  // namespace bv
