// Config: the strict, typed view through which every component reads its keys.
//
// A Config is a view of one YAML mapping, or of the arguments of one call of the pp mini-language
// (lib/config/call.h). A component reads each key once, in its constructor, with the default next
// to the read:
//
//     Vit::Vit(const Config& config) : width_(config.get<int64_t>("width", 768)) { ... }
//
// A table at the top of the same file describes the key (lib/config/key_table.h).
//
// Three rules make the reader strict:
//   - Every read is recorded. done() reports the keys that were not read, each with the nearest
//     name that was read, and explain() lists every read.
//   - Problems carry "file:line:column" and are collected, so that a user sees all of them at once:
//     get() with a fallback records a problem and returns the fallback; get() without one throws.
//     Whoever builds something from a config calls throw_problems() before any real work.
//   - A key whose value is null counts as absent.
//
// Components keep the values, never the Config. A Config is cheap to copy: all copies share the
// tree and the record of reads. Not thread-safe.
//
// To load a config from a file or a string: lib/config/load_config.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lib/util/error.h"
#include "lib/util/place.h"

namespace bv {

// Internal to lib/config.
struct Node;       // one value of the tree (lib/config/node.h)
struct NodeEntry;  // a key with its value
struct Wrong;      // why a value has another type (lib/config/node.h)
class Document;    // the tree with what was read and what was wrong (lib/config/document.h)

struct Call;          // lib/config/call.h
struct ConfigChange;  // lib/config/changes.h

// A scalar of any type, for the few keys that take several.
using AnyScalar = std::variant<bool, int64_t, double, std::string>;

// The source line that reads a required key. Its constructor is explicit, so that get<T>(key, {})
// means the fallback T{} and not a Caller.
struct Caller {
  explicit constexpr Caller(std::source_location at) : at(at) {}
  std::source_location at;
};

class Config {
 public:
  Config();  // an empty mapping that belongs to no file
  Config(std::shared_ptr<Node> node, std::shared_ptr<Document> document, std::string path);

  // ---- Values
  //
  // T is one of
  //     bool   int64_t   double   std::string   AnyScalar
  //     std::vector<U> with U = bool, int64_t, double or std::string
  //     std::vector<std::pair<std::string, double>>        a list of [pattern, number]
  //     std::vector<std::pair<std::string, std::string>>   a list of [string, string]
  //     std::vector<std::optional<int64_t>>                a list of integers or null: [40, null]
  // The last one can only be read without a fallback.
  // Conversions are strict:
  //   - Numbers are finite, also as float32.
  //   - A double may be written as an integer. An int64_t may be written as 1e3, but not as 5.0.
  //   - Booleans are true and false only: not yes, on or 1.
  //   - A string may be any scalar of YAML; in a pp call it must be quoted.
  //   - A quoted scalar is never a number or a boolean.
  //   - 010 and 1_000 are rejected, with the spelling to use instead.
  // A problem names the full path of the key, or of the item in a list, what was expected and what
  // was found: "vit.yaml:3:8: error: model.depth: expected an integer, got '12.5'".

  // Returns the value of a required key. Throws Error(Exit::usage) if the key is missing or its
  // value has another type.
  template <class T>
  T get(std::string_view key, Caller caller = Caller(std::source_location::current())) const;
  // Returns the value, or `fallback` if the key is absent. A value of another type is recorded as a
  // problem, and `fallback` is returned.
  template <class T>
  T get(std::string_view key, T fallback,
        std::source_location where = std::source_location::current()) const;
  std::string get(std::string_view key, const char* fallback,
                  std::source_location where = std::source_location::current()) const;
  // Returns the value, or nullopt if the key is absent. A value of another type is recorded as a
  // problem, and nullopt is returned.
  template <class T>
  std::optional<T> maybe(std::string_view key,
                         std::source_location where = std::source_location::current()) const;
  // Like get() with a string fallback, but any value that is neither `fallback` nor one of `words`
  // is recorded as a problem.
  std::string word(std::string_view key, std::string_view fallback,
                   const std::vector<std::string>& words,
                   std::source_location where = std::source_location::current()) const;

  // Returns whether the key is null: in this file, in an including file or on the command line. Use
  // it only for keys for which null differs from absent: json() and the resolved config then keep
  // the null, but explain() does not list it.
  bool keep_null(std::string_view key) const;

  // ---- Nested mappings and lists of mappings

  // Returns the mapping below `key`, or an empty one if the key is absent. Any other value is
  // recorded as a problem, and an empty mapping is returned.
  Config section(std::string_view key,
                 std::source_location where = std::source_location::current()) const;
  // Returns the mappings of a list; items that are not mappings are recorded as problems.
  std::vector<Config> sections(std::string_view key,
                               std::source_location where = std::source_location::current()) const;
  // Returns a list of [pattern, mapping] and [pattern, null] pairs in file order (`schedule`).
  // Throws Error(Exit::usage) for any other item.
  std::vector<std::pair<std::string, std::optional<Config>>> pattern_sections(
      std::string_view key, std::source_location where = std::source_location::current()) const;
  // Returns all entries of this mapping with their names, in file order, where every value must be
  // a mapping (`evals`). An entry that is null is skipped: this is how a config switches off an
  // entry that it inherits. Any other value is recorded as a problem.
  std::vector<std::pair<std::string, Config>> items(
      std::source_location where = std::source_location::current()) const;

  // ---- Queries, which do not count as reads.

  bool has(std::string_view key) const;      // present and not null
  bool is_map(std::string_view key) const;   // present and a mapping
  bool is_bool(std::string_view key) const;  // present and true or false
  // Present and this string: for a word such as `auto` where a number is allowed too.
  bool is_text(std::string_view key, std::string_view text) const;
  // Present and a list. In a pp call, `key` may also be given by the next positional argument.
  bool is_list(std::string_view key) const;
  std::vector<std::string> keys() const;  // of all entries, in file order

  // ---- Positional arguments (pp calls only)
  //
  // As in a Python call, a read of a name that is not given by keyword takes the next positional
  // argument, and a name that is given both ways is a problem. The names must be read in the order
  // of the signature.

  size_t positional_left() const;  // the number of positional arguments that are not yet read
  // Reads all remaining ones, as strings (keep, drop).
  std::vector<std::string> positional_strings() const;

  // ---- Problems. An empty `key` means the mapping itself.

  // Records a problem and throws it as Error(Exit::usage): "x.yaml:3:8: error: input.batch_size:
  // <why>", or for an argument of a pp call "...: error: resize: size <why>".
  [[noreturn]] void fail(std::string_view key, std::string_view why) const;
  // Records a problem and returns.
  void problem(std::string_view key, std::string_view why) const;
  // Records a problem because the mapping has no key that begins with `prefix`. throw_problems()
  // leaves it out if the message of an unknown key recommends such a key.
  void none_given(std::string_view prefix, std::string_view why) const;
  // Records the line "<place>: warning: <key>: <why>"; see warnings().
  void warn(std::string_view key, std::string_view why) const;
  // Accepts a key that this program does not use: counts it as read and, if it is present, records
  // one warning with `instead`.
  void superseded(std::string_view key, std::string_view instead,
                  std::source_location where = std::source_location::current()) const;

  // Replaces the value of `key`, a word such as `auto`, by its meaning. Later reads, explain(),
  // json() and the resolved config have the new value.
  void replace(std::string_view key, int64_t value) const;
  bool was_replaced(std::string_view key) const;  // by replace()

  // Records a problem for each unread key, here and in all sections returned from this mapping. A
  // mapping whose reader gave up (by fail(), a missing required key, or attempt()) is skipped,
  // because its reader might have read more keys; pass `although_incomplete` if all keys had been
  // read before.
  void done(bool although_incomplete = false) const;
  // Exempts `key`, or this mapping if `key` is empty, with everything below it from done(). For the
  // keys of a component that is not built. It is not a read: explain() does not list the key.
  void mark_read(std::string_view key = {}) const;
  // Records the meaning of a word such as `auto` for a key that was read: explain() shows the value
  // as "auto (float32)". The last call counts.
  void explain_as(std::string_view key, std::string_view meaning) const;

  // ---- Texts

  // Of the key's value, of the key itself if the value is null, or else of the mapping.
  Place place(std::string_view key = {}) const;
  // Returns the path of this mapping from the root: "evals.val", "input.pp[1]: resize".
  const std::string& path() const { return path_; }
  std::string yaml() const;  // this mapping as YAML, without defaults
  // Returns this mapping as JSON, without defaults. Numbers keep their spelling if JSON has it.
  std::string json() const;
  std::string json(std::string_view key) const;  // the value of a key that is in keys()
  // Like json(), but with the defaults with which absent keys were read.
  std::string resolved_json() const;

 private:
  friend void throw_problems(const Config&);
  friend size_t problem_count(const Config&);
  friend std::vector<std::string> warnings(const Config&);
  friend bool attempt(const Config&, const std::function<void()>&);
  friend std::string explain(const Config&);
  friend std::vector<ConfigChange> config_changes(const Config& before, const Config& now);
  friend std::string resolved_yaml(const Config&);
  friend std::vector<std::string> named_files(const Config& config, std::string_view except);
  friend std::vector<Call> parse_calls(std::string_view text, const Config& owner,
                                       std::string_view key);
  friend std::string fill_constants(std::string_view text, const Config& owner);

  std::shared_ptr<Node> find(std::string_view key) const;
  // Records a read and returns the value; null if it is absent. `text`: it is read as a string or a
  // list of strings.
  std::shared_ptr<Node> read(std::string_view key, std::shared_ptr<Node> fallback, bool section,
                             std::source_location where, bool text = false) const;
  template <class T>
  std::optional<T> convert_or_record(const Node& value, std::string_view key) const;
  // Returns the problem of the value at `place`; `suffix` is its path below `key`.
  Error error_at(const Place& place, std::string_view key, std::string_view suffix,
                 std::string_view why) const;
  Error error_of_value(const Wrong& wrong, std::string_view key) const;
  Error error_of_key(std::string_view key, std::string_view why) const;
  Error error_of_unread(const NodeEntry& entry, const std::vector<std::string>& known) const;
  static void done_below(const std::shared_ptr<Node>& node,
                         const std::shared_ptr<Document>& document, const std::string& path);
  [[noreturn]] void missing(std::string_view key, std::string_view type) const;
  [[noreturn]] void give_up(const Error& error) const;

  std::shared_ptr<Node> node_;
  std::shared_ptr<Document> document_;
  std::string path_;
};

// ---- The whole document. It does not matter which of its Configs is passed.

// Throws all recorded problems as one Error(Exit::usage): one line each, sorted by place, at most
// 20.
void throw_problems(const Config&);
size_t problem_count(const Config&);
std::vector<std::string> warnings(const Config&);

// Calls `build`. If it throws an Error(Exit::usage), records that as a problem, makes done() of
// this mapping silent, because `build` may have left keys unread, and returns false. Pass the
// mapping whose keys `build` reads. If other code reads keys of the same mapping, done() must still
// report unknown keys: mark those that `build` should have read with mark_read(), then call
// done(/*although_incomplete=*/true), as Recipe does for the whole config.
bool attempt(const Config&, const std::function<void()>& build);

// Returns the table of --explain: one line per key that was read, with its value, default, origin
// and the source line of the read.
std::string explain(const Config&);
// Returns the config with all defaults that were read, as YAML, with the origin of each value as a
// comment. Loading it again gives the same values.
std::string resolved_yaml(const Config&);

// Returns "unknown model 'vot' (did you mean 'vit'?); known: bit, cnn, vit".
std::string unknown_name_message(std::string_view kind, std::string_view name,
                                 const std::vector<std::string>& known);

}  // namespace bv
