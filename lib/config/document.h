// Private to lib/config: records which keys of a config were read and what was wrong. All Configs
// of one tree share one Document.
//
// A mapping is identified by its path from the root ("" for the root, "evals.val", and
// "input.pp[1]: resize" for a pp call).
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/node.h"

namespace bv {

class Document {
 public:
  struct Read {
    std::string mapping, key;
    std::shared_ptr<Node> value;     // null if the key is absent
    std::shared_ptr<Node> fallback;  // null if there is none
    std::string source;              // "lib/input/loader/loader.cc:31"
    bool several_fallbacks = false;  // the key was read with different fallbacks
    bool section = false;
    bool optional = false;     // the key may be absent although it has no fallback
    bool text = false;         // each read was that of a string or a list of strings
    std::string meaning = {};  // given to Config::explain_as(); empty: nothing was
  };

  // Adds one or several problems, except those that are recorded already.
  void record(const Error& error);
  void record_warning(const std::string& line);
  // Records a read; a second read of the same key is merged with the first.
  void read(Read read);
  // Records that a key that was read has a new value.
  void replaced(const std::string& mapping, std::string_view key,
                const std::shared_ptr<Node>& value);
  bool was_replaced(const std::string& mapping, std::string_view key) const;
  // Records that a key was queried without being read.
  void asked(const std::string& mapping, std::string_view key) { known_[mapping].emplace(key); }
  // Does nothing for a key that was not read.
  void explain_as(const std::string& mapping, std::string_view key, std::string_view meaning);
  bool was_read(const std::string& mapping, std::string_view key) const;
  bool is_section(const std::string& mapping, std::string_view key) const;
  // Whether the key was read, and only as a string or a list of strings.
  bool is_text(const std::string& mapping, std::string_view key) const;
  bool was_asked(const std::string& mapping, std::string_view key) const;
  // Returns the keys of a mapping that were read or asked for.
  std::vector<std::string> known(const std::string& mapping) const;
  // Returns true on the first call for an unread key, false later.
  bool report(const std::string& mapping, const std::string& key);

  std::shared_ptr<Node> root;
  std::vector<Error> problems;  // each with its place
  size_t left_out = 0;          // further problems, whose messages were not kept
  // For each problem that is a missing key: its text and the path of the key. A path that ends in
  // '*' stands for the keys that begin like it, of which one is missing.
  std::map<std::string, std::string> missing;
  // The paths of values that are not the mappings that they should be, with the problem of each.
  std::map<std::string, Error> no_mappings;
  // The paths that messages about unknown keys recommend. If one of them is missing, that is not a
  // separate problem.
  std::set<std::string> recommended;
  std::vector<std::string> warnings;  // lines
  std::vector<Read> reads;            // in order
  std::set<std::string> incomplete;   // mappings whose reader gave up
  std::set<std::string> ignored;      // paths given to Config::mark_read()
  std::set<std::string> own_nulls;    // paths given to Config::keep_null()

 private:
  std::map<std::string, std::map<std::string, size_t, std::less<>>> index_;  // into reads
  std::map<std::string, std::set<std::string, std::less<>>> known_;
  std::set<std::string> replaced_;  // paths
  std::set<std::string> reported_;
};

// Returns a copy of `node`, the value at `path`, in which absent keys have the defaults with which
// they were read.
std::shared_ptr<Node> effective(const Document& document, const std::shared_ptr<Node>& node,
                                const std::string& path);

std::string explain_lines(const Document& document);

// Returns the signature of the call at `path`, made from what its op has read: "resize(size,
// method='bilinear')". Unless `complete`, it ends in "..." for arguments that were not read yet.
std::string call_signature(const Document& document, const std::string& path, bool complete);

// Returns the argument of a call for which `name` probably stands: the nearest of those `known`, or
// the one that ends in it, as crop_size for size. "" if there is none.
std::string meant_argument(std::string_view name, const std::vector<std::string>& known);

// If `entry` of `mapping` is the rest of an unquoted value that a ',' cut off, returns the entry
// that has the value; else null. To YAML, {pp: resize(8, 8)} has the keys "pp" and "8)".
const Node::Entry* cut_entry(const Node& mapping, const Node::Entry& entry);
constexpr std::string_view kCutByComma =
    "the ',' ends this value: within brackets {...}, put it in quotes";

// Returns the path of `key` in the mapping at `path`.
std::string join_path(std::string_view path, std::string_view key);
// Returns the path of an item of the list at `path`. The mapping of a pair [pattern, mapping] has
// the path of the pair.
std::string item_path(const Node& list, const std::string& path, size_t index);
// Returns a path as shown in messages: for a pp call, only the name of the op.
std::string shown_path(std::string_view path);
// Throws the problems as one Error(Exit::usage), sorted by place, without duplicates and at most
// 20; does nothing if there are none.
void throw_sorted(const std::vector<Error>& problems, size_t left_out = 0);

}  // namespace bv
