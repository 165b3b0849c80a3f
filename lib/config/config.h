// The strict config reader: a view of one YAML mapping, or of the arguments of one pp call.
//
// Every key is read once, by the component it configures, with its default beside the read:
//     width_(config.get<int64_t>("width", 768))
// Reads are remembered: done() reports keys that nobody read with the nearest name that somebody
// asked for. Problems carry file:line:col and are collected, so that a user sees all errors of a
// file together; get() with a fallback records a problem and returns the fallback, get() without
// one throws. Whoever builds from a config calls throw_problems() before any work.
//
// A missing key and a key whose value is null are the same. Not thread-safe; components keep
// values, never a Config.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/util/error.h"

namespace bv {

// A place in a config file (1-based), or on the command line.
struct Place {
  std::string file;  // "vit.yaml", "--set lr=x"
  int line = 0;      // 0: the file as a whole, or not a file
  int column = 0;
  std::string text() const;  // "vit.yaml:12:7", "vit.yaml", "--set lr=x"
};

struct Node;       // internal: one YAML value with its place
struct NodeEntry;  // internal: a key with its value
struct Call;       // of the pp mini-language, below
class Document;    // internal to lib/config and the app: a parsed file with its problems

// Where a required key is read. Explicit, so that get<T>(key, {}) asks for the fallback T{}.
struct Caller {
  explicit constexpr Caller(std::source_location at) : at(at) {}
  std::source_location at;
};

class Config {
 public:
  Config();  // an empty mapping of no file
  Config(std::shared_ptr<Node> node, std::shared_ptr<Document> document, std::string path);

  // T is one of: bool, int64_t, double, std::string, std::vector<T> of these,
  // std::vector<std::pair<std::string, double>> (lists of [pattern, number]), and without a
  // fallback std::vector<std::optional<int64_t>> (null items: [40, null, 3]). An integer is
  // accepted where a double is asked for, never the other way round (1e3 is an int if its value is
  // whole, 5.0 is not). true and false are the only booleans; quoted scalars are strings; 010 and
  // 1_000 are no numbers. Errors name the key's full path, the value and what was expected.
  template <class T>
  T get(std::string_view key, Caller caller = Caller(std::source_location::current())) const;
  template <class T>
  T get(std::string_view key, T fallback,
        std::source_location where = std::source_location::current()) const;
  std::string get(std::string_view key, const char* fallback,
                  std::source_location where = std::source_location::current()) const;
  // nullopt where the key is absent or null.
  template <class T>
  std::optional<T> maybe(std::string_view key,
                         std::source_location where = std::source_location::current()) const;
  // As get<std::string>, but the value must be one of `words`.
  std::string word(std::string_view key, std::string_view fallback,
                   const std::vector<std::string>& words,
                   std::source_location where = std::source_location::current()) const;

  // Present and not null; does not count as a read. False for a call's positional arguments.
  bool has(std::string_view key) const;
  bool is_map(std::string_view key) const;  // has() and a mapping
  bool is_list(std::string_view key) const;
  bool is_bool(std::string_view key) const;
  // A sub-mapping; absent or null gives an empty one. Reading it counts as reading the key.
  Config section(std::string_view key,
                 std::source_location where = std::source_location::current()) const;
  // A list of mappings.
  std::vector<Config> sections(std::string_view key,
                               std::source_location where = std::source_location::current()) const;
  // A list of [pattern, mapping] or [pattern, null], in file order (`schedule`); throws what is
  // neither.
  std::vector<std::pair<std::string, std::optional<Config>>> pattern_sections(
      std::string_view key, std::source_location where = std::source_location::current()) const;
  // The mapping's own entries whose values are mappings (evals), in file order; a null value is
  // skipped (that switches an inherited entry off); any other value is a problem.
  std::vector<std::pair<std::string, Config>> items(
      std::source_location where = std::source_location::current()) const;
  std::vector<std::string> keys() const;  // all present keys in file order

  // The call's positional arguments in order (pp calls only): successive get()s of names that are
  // not given by keyword take them one by one, as a Python call does. This is how many are left.
  size_t positional_left() const;
  // All positional arguments at once, as strings (keep, drop).
  std::vector<std::string> positional_strings() const;

  // Records a problem with `key` (or with the mapping itself if it is empty) and throws it:
  // "x.yaml:3:8: error: input.batch_size: <why>"; in a pp call "...: error: resize: size <why>".
  [[noreturn]] void fail(std::string_view key, std::string_view why) const;
  // Records a problem and goes on.
  void problem(std::string_view key, std::string_view why) const;
  // One line "<place>: warning: <why>", printed once at the end of building.
  void warn(std::string_view key, std::string_view why) const;
  // Accepts `key` of the seeds that the design supersedes: read, and one warning saying `instead`.
  void superseded(std::string_view key, std::string_view instead,
                  std::source_location where = std::source_location::current()) const;

  Place place(std::string_view key = {}) const;      // of the key's value, else of the mapping
  const std::string& path() const { return path_; }  // "evals.val", "input.pp[1]: resize"
  // Records a problem for each unread key, with its nearest known name: here and in the sections
  // that were handed out below. Silent where the reader gave up (fail(), a required key,
  // attempt()), as nobody knows what it would still have read; `although_incomplete` is for a
  // reader that knows it had read all its keys before it gave up.
  void done(bool although_incomplete = false) const;
  // Silences done() for this subtree, or for `key` and all below it (a component that was not
  // built).
  void mark_read(std::string_view key = {}) const;
  std::string yaml() const;  // the subtree as YAML text
  std::string json() const;  // the subtree as JSON text

 private:
  friend void throw_problems(const Config&);
  friend size_t problem_count(const Config&);
  friend std::vector<std::string> warnings(const Config&);
  friend bool attempt(const Config&, const std::function<void()>&);
  friend std::string explain(const Config&);
  friend std::string resolved_yaml(const Config&);
  friend std::vector<Call> parse_calls(std::string_view text, const Config& owner,
                                       std::string_view key);

  std::shared_ptr<Node> find(std::string_view key) const;
  std::shared_ptr<Node> read(std::string_view key, std::shared_ptr<Node> fallback, bool section,
                             std::source_location where) const;
  template <class T>
  std::optional<T> convert_or_record(const Node& value, std::string_view key) const;
  std::string line(const Place& place, std::string_view key, std::string_view suffix,
                   std::string_view why) const;
  std::string problem_line(std::string_view key, std::string_view why) const;
  std::string unread_line(const NodeEntry& entry, const std::vector<std::string>& known) const;
  static void done_below(const std::shared_ptr<Node>& node,
                         const std::shared_ptr<Document>& document, const std::string& path);
  [[noreturn]] void missing(std::string_view key, std::string_view type) const;
  [[noreturn]] void throw_line(const std::string& text) const;

  std::shared_ptr<Node> node_;
  std::shared_ptr<Document> document_;
  std::string path_;
};

// A command-line value for a key: "lr=0.1" as {"lr", "0.1", "--set lr=0.1"}.
struct Override {
  std::string key;    // dotted path; a number indexes a list
  std::string value;  // YAML
  std::string origin;
};

// Reads `file`, follows `include:` (relative to the including file; mappings merge deeply, other
// values replace), substitutes ${NAME} and ${NAME:-default} in values, applies the overrides (a
// duration `x_steps` on the command line removes the file's other `x_*` units).
// Includes replace a duration's other units in the same way. "$${" stands for "${".
// Throws Error(Exit::usage) with every problem of the text itself: duplicate keys, tabs, tags,
// several documents, open quotes, invalid UTF-8, NUL bytes, cyclic or exploding aliases (depth 64,
// 10^6 values), over 1 MiB, cyclic includes, unset variables, overrides that fit nothing.
Config load_config(const std::string& file, const std::vector<Override>& overrides);
// The same for a text that is no file (tests; a config stored in a checkpoint). `name` stands in
// messages, and its folder is where includes are looked for.
Config parse_config(std::string_view text, const std::string& name,
                    const std::vector<Override>& overrides = {});

// Throws all recorded problems as one Error(Exit::usage), one line each, at most 20, by place.
void throw_problems(const Config&);
size_t problem_count(const Config&);
std::vector<std::string> warnings(const Config&);  // recorded so far
// Runs `build`; an Error(Exit::usage) it throws is recorded among the problems (once). Returns
// whether it went through; if not, done() of this mapping stays silent: pass the section that
// `build` reads, not the whole config.
bool attempt(const Config&, const std::function<void()>& build);
// --explain: one line per key read: path, value, default, origin, file:line of the read.
std::string explain(const Config&);
// The resolved config as YAML with the origin of each value as a comment.
std::string resolved_yaml(const Config&);

// One call of the pp mini-language: "resize(224, method='area')". Arguments are Python literals.
struct Call {
  std::string name;
  Config args;
  Place place;
};
// Splits `text` at every '|' and parses each section (reference section 12.1). Errors point into
// the value of `key`, are recorded in the owner's document and thrown as Error(Exit::usage).
std::vector<Call> parse_calls(std::string_view text, const Config& owner, std::string_view key);
// The same without a config file (--pp on the command line, tests).
std::vector<Call> parse_calls(std::string_view text, const Place& origin);

// "unknown model 'vot' (did you mean 'vit'?); known: bit, cnn, vit"
std::string unknown_name_message(std::string_view kind, std::string_view name,
                                 const std::vector<std::string>& known);

}  // namespace bv
