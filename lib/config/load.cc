// Parses YAML into a tree of Nodes with yaml-cpp's event interface.
//
// yaml-cpp 0.7.0 is more lenient than a config may be: it takes the first of two equal keys, drops
// tags and further documents, accepts invalid UTF-8 and an open quote at the end of the file, and
// expands aliases without limit. Each of these is an error here, with its place. The merge key `<<`
// is supported.
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <unordered_map>

#include "lib/config/document.h"
#include "lib/config/node.h"
#include "lib/config/source_text.h"
#include "lib/config/yaml_fault.h"
#include "lib/util/limits.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Replaces ${NAME} and ${NAME:-default}; "$${" becomes "${". Returns "", or why it cannot be done.
std::string substitute_environment(std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 3, "$${") == 0) {
      out += "${";
      i += 2;
      continue;
    }
    if (text.compare(i, 2, "${") != 0) {
      out += text[i];
      continue;
    }
    const size_t end = text.find('}', i);
    if (end == std::string::npos) return "'${' without '}'";
    const std::string inside = text.substr(i + 2, end - i - 2);
    if (inside.find("${") != std::string::npos)
      return fmt::format("'${{{}}}': it cannot contain another '${{'", printable(inside));
    const size_t colon = inside.find(":-");
    const std::string name = inside.substr(0, colon);
    if (name.empty() || name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuv"
                                               "wxyz0123456789_") != std::string::npos) {
      return fmt::format("'${{{}}}' is not the name of an environment variable", printable(inside));
    }
    const char* value = std::getenv(name.c_str());
    const bool given = value != nullptr && value[0] != '\0';
    if (!given && colon == std::string::npos) {
      return fmt::format(
          "the environment variable {} is not set or empty (${{{}:-value}} gives a default)", name,
          name);
    }
    out += given ? value : inside.substr(colon + 2);
    i = end;
  }
  text = std::move(out);
  return valid_utf8(text) ? "" : "the environment variable holds invalid UTF-8";
}

// Whether the quoted string at the start of `text` is closed: yaml-cpp accepts the end of the file
// as a closing quote. Returns true if `text` does not start with a quote.
bool quote_closes(std::string_view text) {
  const char quote = text.empty() ? '\0' : text[0];
  if (quote != '\'' && quote != '"') return true;
  for (size_t i = 1; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      if (quote == '"' || i + 1 == text.size() || text[i + 1] != quote) return true;
      ++i;
    }
  }
  return false;
}

bool is_null_text(const std::string& text) { return text.empty() || text == "null" || text == "~"; }

class Builder : public YAML::EventHandler {
 public:
  Builder(const SourceText& source, bool substitute, std::vector<Error>& problems)
      : source_(source), substitute_(substitute), problems_(problems) {}

  std::shared_ptr<Node> root() const { return root_; }

  // Returns where the innermost open list or mapping begins, or else `where`.
  size_t innermost(size_t where) const { return open_.empty() ? where : open_.back().begin; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (!started_) {
      started_ = true;
      return;
    }
    const size_t where = source_.offset(mark.line, mark.column);
    if (source_.text().substr(0, where + 3).ends_with("---"))
      throw source_.error(where, "a second document ('---'): a config has one");
    throw Error::all(Exit::usage, explain_yaml_fault(source_, where, ""));
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const size_t where = source_.offset(mark.line, mark.column);
    // yaml-cpp drops the tag of an empty value.
    if (source_.text().substr(where).starts_with("!")) refuse_tag(where, "!");
    count(where, 1);
    auto node = std::make_shared<Node>();
    node->place = source_.at(where);
    finish(anchor, {node, 1, 0});
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const size_t where = source_.offset(mark.line, mark.column);
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) throw source_.error(where, "an alias that contains itself");
    count(where, found->second.size);
    check_depth(where, found->second.height);
    add(found->second);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const size_t where = source_.offset(mark.line, mark.column);
    refuse_tag(where, tag);
    count(where, 1);
    auto node = std::make_shared<Node>();
    node->place = source_.at(where);
    node->kind = Node::Kind::scalar;
    node->style = tag == "!" ? Node::Style::quoted : Node::Style::plain;
    node->text = value;
    const std::string_view rest = source_.text().substr(where);
    if (rest.starts_with(value)) node->shift = 0;
    node->folded = node->style == Node::Style::plain && !rest.starts_with(value);
    if (node->style == Node::Style::quoted) {
      if (!quote_closes(rest)) throw source_.error(where, "a quote that is never closed");
      node->shift = rest.substr(1).starts_with(value) ? 1 : -1;
    }
    if (value.find('\0') != std::string::npos) problem(where, "a NUL byte");
    // The file is valid UTF-8, but yaml-cpp turns these two escapes into single bytes.
    if (!valid_utf8(value))
      problem(where, "the escapes \\_ and \\N are not supported: write \\u00a0 and \\u0085");
    if (substitute_ && !awaits_key() && value.find('$') != std::string::npos) {
      substitute_in(*node, where);
    }
    finish(anchor, {node, 1, 0});
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    begin(mark, tag, anchor, Node::Kind::list);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    begin(mark, tag, anchor, Node::Kind::map);
  }
  void OnMapEnd() override {
    merge_bases(open_.back());
    end();
  }

 private:
  // A finished value, the number of values in it and its depth, with aliases expanded.
  struct Value {
    std::shared_ptr<Node> node;
    size_t size = 1;
    size_t height = 0;
  };
  struct Open {
    Value value;
    size_t begin = 0;  // its offset
    YAML::anchor_t anchor = 0;
    std::optional<Node::Entry> entry;                            // a key without its value so far
    bool merges = false;                                         // that key is '<<'
    std::unordered_map<std::string, Place> seen;                 // keys
    std::vector<std::pair<Place, std::shared_ptr<Node>>> bases;  // of '<<'
  };

  bool awaits_key() const {
    return !open_.empty() && open_.back().value.node->kind == Node::Kind::map &&
           !open_.back().entry;
  }
  void problem(size_t where, std::string_view why) {
    problems_.push_back(source_.error(where, why));
  }
  void refuse_tag(size_t where, const std::string& tag) {
    if (tag == "" || tag == "?" || (tag == "!" && !source_.text().substr(where).starts_with("!"))) {
      return;
    }
    problem(where, "YAML tags ('!...') are not supported: write the plain value");
  }
  void count(size_t where, size_t values) {
    count_ += values;
    if (count_ > limits::kConfigValues) {
      throw source_.error(
          where, fmt::format("more than {} values (aliases expanded)", limits::kConfigValues));
    }
  }
  void check_depth(size_t where, size_t height) {
    if (open_.size() + height > limits::kConfigNesting) {
      throw source_.error(where,
                          fmt::format("nested more than {} levels deep", limits::kConfigNesting));
    }
  }

  void substitute_in(Node& node, size_t where) {
    const std::string before = node.text;
    const bool whole = before.starts_with("${") && before.find('}') + 1 == before.size();
    const std::string why = substitute_environment(node.text);
    if (!why.empty()) return problem(where, why);
    if (node.text == before) return;
    node.shift = -1;
    // Within brackets a variable must be in quotes, even if it is a number. An empty string stays a
    // string.
    if (whole && !node.text.empty()) node.style = Node::Style::plain;
    if (node.style == Node::Style::plain && is_null_text(node.text)) node.kind = Node::Kind::null;
  }

  void begin(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
             Node::Kind kind) {
    const size_t where = source_.offset(mark.line, mark.column);
    refuse_tag(where, tag);
    check_depth(where, 1);
    count(where, 1);
    Open open;
    open.value.node = std::make_shared<Node>();
    open.value.node->kind = kind;
    open.value.node->place = source_.at(where);
    open.begin = where;
    open.anchor = anchor;
    open_.push_back(std::move(open));
  }
  void end() {
    Open open = std::move(open_.back());
    open_.pop_back();
    ++open.value.height;
    finish(open.anchor, open.value);
  }
  void finish(YAML::anchor_t anchor, const Value& value) {
    if (anchor != 0) anchors_[anchor] = value;
    add(value);
  }

  void add(const Value& value) {
    if (open_.empty()) {
      root_ = value.node;
      return;
    }
    Open& open = open_.back();
    if (open.value.node->kind == Node::Kind::map && !open.entry) return take_key(open, *value.node);
    open.value.size += value.size;
    open.value.height = std::max(open.value.height, value.height);
    if (open.value.node->kind == Node::Kind::list) {
      open.value.node->list.push_back(value.node);
      return;
    }
    Node::Entry entry = *std::exchange(open.entry, std::nullopt);
    if (open.merges) {
      open.bases.emplace_back(entry.place, value.node);
      return;
    }
    entry.value = value.node;
    open.value.node->map.push_back(std::move(entry));
  }

  void take_key(Open& open, const Node& key) {
    if (key.kind != Node::Kind::scalar || key.text.empty()) {
      problems_.emplace_back(Exit::usage, key.place, "a key must be a plain name");
      open.entry = Node::Entry{"", key.place, nullptr};
      return;
    }
    const auto [first, inserted] = open.seen.emplace(key.text, key.place);
    if (!inserted) {
      problems_.emplace_back(
          Exit::usage, key.place,
          fmt::format("duplicate key '{}' (first at {})", printable(key.text),
                      first->second.line > 0 ? fmt::format("line {}", first->second.line)
                                             : "the same place"));
    }
    if (open.seen.size() > limits::kMappingKeys) {
      throw Error(Exit::usage, key.place,
                  fmt::format("more than {} keys in one mapping", limits::kMappingKeys));
    }
    open.entry = Node::Entry{key.text, key.place, nullptr};
    open.merges = key.text == "<<" && key.style == Node::Style::plain;
  }

  // Moves the entry `key` to the removed ones if its value is null.
  static void move_null(Node& node, const std::string& key) {
    const auto found = std::find_if(node.map.begin(), node.map.end(), [&](const Node::Entry& own) {
      return own.key == key && own.value->kind == Node::Kind::null;
    });
    if (found == node.map.end()) return;
    node.removed.push_back(*found);
    node.map.erase(found);
  }

  // YAML's merge key: adds the entries of the mapping (or mappings) below `<<` whose keys are not
  // given here. A null here removes an entry, as in an including file.
  void merge_bases(Open& open) {
    Node& node = *open.value.node;
    for (const auto& [place, base] : open.bases) {
      const std::vector<std::shared_ptr<Node>> all =
          base->kind == Node::Kind::list ? base->list : std::vector{base};
      for (const auto& from : all) {
        if (from->kind != Node::Kind::map) {
          problems_.emplace_back(
              Exit::usage, place,
              fmt::format("'<<' takes a mapping or a list of mappings, got {}", describe(*from)));
          continue;
        }
        for (const Node::Entry& entry : from->map) {
          if (open.seen.emplace(entry.key, entry.place).second)
            node.map.push_back(entry);
          else
            move_null(node, entry.key);
        }
      }
    }
  }

  const SourceText& source_;
  const bool substitute_;
  std::vector<Error>& problems_;
  bool started_ = false;
  size_t count_ = 0;
  std::shared_ptr<Node> root_;
  std::vector<Open> open_;
  std::unordered_map<YAML::anchor_t, Value> anchors_;
};

// Throws if the source is too large or contains bytes that are not allowed in a config.
void check_bytes(const SourceText& source, const std::string& name) {
  const std::string_view text = source.text();
  if (text.size() > limits::kConfigBytes) {
    throw Error(Exit::usage, Place{name},
                fmt::format("larger than {} bytes", limits::kConfigBytes));
  }
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    throw Error(Exit::usage, Place{name}, "is UTF-16 text: save the file as UTF-8");
  }
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    throw source.error(nul, "a NUL byte");
  }
  if (valid_utf8(text)) return;
  size_t line = 0;
  while (true) {  // finds the first bad line, which exists
    const size_t end = std::min(text.find('\n', line), text.size());
    if (!valid_utf8(text.substr(line, end - line))) throw source.error(line, "invalid UTF-8");
    line = end + 1;
  }
}

}  // namespace

std::shared_ptr<Node> parse_yaml(std::string_view text, const std::string& name, YamlFrom from,
                                 std::vector<Error>& problems) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const SourceText source(text, name, from == YamlFrom::command_line);
  check_bytes(source, name);
  std::istringstream stream{std::string(text)};
  Builder builder(source, from == YamlFrom::file, problems);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::DeepRecursion& error) {
    throw source.error(source.offset(error.mark.line, error.mark.column),
                       fmt::format("nested more than {} levels deep", limits::kConfigNesting));
  } catch (const YAML::Exception& error) {
    const size_t where = source.offset(error.mark.line, error.mark.column);
    const bool in_brackets = error.msg == YAML::ErrorMsg::END_OF_SEQ_FLOW ||
                             error.msg == YAML::ErrorMsg::END_OF_MAP_FLOW;
    // yaml-cpp gives no position for these.
    if (in_brackets) throw explain_open_bracket(source, builder.innermost(where));
    throw Error::all(Exit::usage, explain_yaml_fault(source, where, error.msg));
  }
  return builder.root();
}

}  // namespace bv
