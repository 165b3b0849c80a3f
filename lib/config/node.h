// Private to lib/config: the tree a config is read from, and what is remembered of the reading.
//
// A Node is one YAML value, or one argument of a pp call, with its place. Nodes are shared (YAML
// aliases, included files) and never changed once a tree is loaded; only a call's node binds its
// positional arguments to names as they are read.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/config/config.h"

namespace bv {

constexpr size_t kLargestFile = 1u << 20;  // bytes of one file, or of one text

struct NodeEntry {
  std::string key;
  Place place;  // of the key
  std::shared_ptr<Node> value;
};

struct Node {
  using Entry = NodeEntry;
  enum class Kind { null, scalar, list, map };
  // How a scalar was written: YAML's plain scalars may be numbers or booleans, quoted ones are
  // strings, literals are Python's numbers and booleans in a pp call, never strings.
  enum class Style { plain, quoted, literal };

  Kind kind = Kind::null;
  Style style = Style::plain;
  std::string text;  // a scalar's
  Place place;       // of the value; an empty file: a default
  // Where `text` stands letter for letter in the file: this many columns after `place`; -1:
  // nowhere.
  int shift = -1;
  std::vector<std::shared_ptr<Node>> list;  // a list's items
  std::vector<Entry> map;                   // a mapping's entries, a call's keyword arguments
  bool is_call = false;
  std::vector<std::shared_ptr<Node>> positional;  // a call's
  size_t taken = 0;                               // how many of them were read

  const Entry* entry(std::string_view key) const;
};

std::shared_ptr<Node> make_map(const Place& place);

// ---- values (value.cc)

// Why a node is not what was asked for; `suffix` leads to the item of a list that is wrong.
struct Wrong {
  const Node* node;
  std::string suffix;
  std::string why;
};
template <class T>
std::optional<Wrong> convert(const Node& node, T& out);
template <class T>
const char* expected();  // "a number"
template <class T>
std::shared_ptr<Node> to_node(const T& value);
bool is_number(std::string_view text);
// "'fast'", "a list", "null"; one line whatever the value holds.
std::string describe(const Node& node);
// Control characters escaped, long texts cut: fit for a message.
std::string printable(std::string_view text, size_t longest = 80);

// ---- text forms (emit.cc)

std::string to_yaml(const Node& node, bool with_origins);
std::string to_flow(const Node& node);  // on one line
std::string to_json(const Node& node);
// "vit.yaml:12", "--set lr=0.1", "default".
std::string origin(const Place& place);

// ---- loading (load.cc, merge.cc)

// A text's root; null for an empty text. Problems that leave the rest readable go to `problems` as
// lines; others are thrown. With `on_command_line`, all places are just `name`.
std::shared_ptr<Node> parse_yaml(std::string_view text, const std::string& name,
                                 bool on_command_line, std::vector<std::string>& problems);
// `over` laid on `base`: mappings merge deeply, other values replace, a duration replaces the
// base's other units of it.
std::shared_ptr<Node> merged(const std::shared_ptr<Node>& base, const std::shared_ptr<Node>& over);
void apply_overrides(std::shared_ptr<Node>& root, const std::vector<Override>& overrides,
                     std::vector<std::string>& problems);

// ---- what was read (document.cc, unread.cc)

class Document {
 public:
  struct Read {
    std::string mapping, key;
    std::shared_ptr<Node> value;     // null: absent
    std::shared_ptr<Node> fallback;  // null: none
    std::string source;              // "lib/input/loader/loader.cc:31"
    bool several_fallbacks = false;
    bool section = false;
    bool optional = false;  // absent is fine, without a default
  };

  // Lines that are already there are not added again.
  void record(std::string_view lines);
  void record_warning(const std::string& line);
  void read(Read read);
  void asked(const std::string& mapping, std::string_view key) { known_[mapping].emplace(key); }
  bool was_read(const std::string& mapping, std::string_view key) const;
  bool is_section(const std::string& mapping, std::string_view key) const;
  bool was_asked(const std::string& mapping, std::string_view key) const;
  std::vector<std::string> known(const std::string& mapping) const;
  // Whether the unread key is reported for the first time.
  bool report(const std::string& mapping, const std::string& key);

  std::shared_ptr<Node> root;
  std::vector<std::string> problems, warnings;
  std::vector<Read> reads;           // in order
  std::set<std::string> incomplete;  // mappings whose reader gave up
  std::set<std::string> ignored;     // subtrees that nobody reads

 private:
  std::map<std::string, std::map<std::string, size_t, std::less<>>> index_;  // into reads
  std::map<std::string, std::set<std::string, std::less<>>> known_;
  std::set<std::string> reported_;
};

// The tree of effective values: `node` with the defaults that were read in place of what is absent.
std::shared_ptr<Node> effective(const Document& document, const std::shared_ptr<Node>& node,
                                const std::string& path);

std::string explain_lines(const Document& document);

// "resize(size, method='bilinear')" from what the call at `path` has read; unless `complete`, with
// "..." for what it would still have read.
std::string call_signature(const Document& document, const std::string& path, bool complete);

// The path of `key` in the mapping at `path`.
std::string join_path(std::string_view path, std::string_view key);
// The path of a list's item. In a pair [pattern, mapping] the mapping bears the path of the pair.
std::string item_path(const Node& list, const std::string& path, size_t index);
// A path as it stands in messages: for pp calls just the op.
std::string shown_path(std::string_view path);
void throw_lines(const std::vector<std::string>& lines);

}  // namespace bv
