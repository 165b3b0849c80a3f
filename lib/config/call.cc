#include "lib/config/call.h"

#include <algorithm>
#include <cctype>

#include "lib/config/document.h"
#include "lib/config/node.h"
#include "lib/util/limits.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr std::string_view kBlank = " \t\r\n";

bool name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool name_part(char c) { return name_start(c) || (c >= '0' && c <= '9'); }

constexpr std::string_view kNumClasses = "num_classes";

// Returns num_classes as a string if it is a number.
std::optional<std::string> num_classes(const Node& root) {
  const Node::Entry* entry = root.entry(kNumClasses);
  int64_t value = 0;
  if (entry == nullptr || convert(*entry->value, value)) return std::nullopt;
  return fmt::format("{}", value);
}

// A string to parse and its place.
struct TextSpan {
  std::string_view text;
  Place place;
  // Whether the file contains the string verbatim from `place` on. If not, every error refers to
  // the whole string.
  bool exact;
  std::string label;  // the key that holds the string; may be empty

  // Returns the place of the character at byte `offset`.
  Place at(size_t offset) const {
    Place out = place;
    if (!exact) return out;
    for (size_t i = 0; i < offset && i < text.size(); ++i) {
      if ((text[i] & 0xC0) != 0x80) ++out.column;
    }
    return out;
  }
};

// Parses one call. Offsets count from the start of the whole string.
class Parser {
 public:
  // `constants` is the root of the config, or null if there is none.
  Parser(const TextSpan& span, size_t begin, size_t end, const Node* constants)
      : span_(span), at_(begin), end_(end), constants_(constants) {}

  // Returns the name of the op and its arguments as a call node.
  std::pair<std::string, std::shared_ptr<Node>> call() {
    skip_blanks();
    const size_t begin = at_;
    const std::string name = dotted_name();
    if (name.empty()) fail(at_, fmt::format("expected the name of an op, got {}", next()));
    auto node = make_map(span_.at(begin));
    node->is_call = true;
    skip_blanks();
    if (take('(')) arguments(*node);
    skip_blanks();
    if (at_ < end_)
      fail(at_, fmt::format("expected '|' or the end after {}, got {}", name, next()));
    return {name, node};
  }

 private:
  [[noreturn]] void fail(size_t where, std::string_view why) const {
    const std::string label = span_.label.empty() ? "" : span_.label + ": ";
    const std::string position =
        span_.exact ? "" : fmt::format(" (at character {} of it)", where + 1);
    Place place = span_.at(where);
    if (!label.empty()) place.key.clear();  // the label names it
    throw Error(Exit::usage, place, fmt::format("{}{}{}", label, why, position));
  }

  char peek() const { return at_ < end_ ? span_.text[at_] : '\0'; }
  bool take(char c) {
    if (at_ >= end_ || span_.text[at_] != c) return false;
    ++at_;
    return true;
  }
  void skip_blanks() {
    while (at_ < end_ && kBlank.find(span_.text[at_]) != std::string_view::npos) ++at_;
  }
  // The word or character at the current position, for a message.
  std::string next() const {
    if (at_ >= end_) return "the end";
    size_t end = at_ + 1;
    if (name_part(span_.text[at_])) {
      while (end < end_ && name_part(span_.text[end])) ++end;
    }
    while (end < end_ && (span_.text[end] & 0xC0) == 0x80) ++end;
    return fmt::format("'{}'", printable(span_.text.substr(at_, end - at_)));
  }

  std::string identifier() {
    const size_t begin = at_;
    if (!name_start(peek())) return "";
    while (at_ < end_ && name_part(span_.text[at_])) ++at_;
    return std::string(span_.text.substr(begin, at_ - begin));
  }
  std::string dotted_name() {
    std::string name = identifier();
    while (!name.empty() && peek() == '.') {
      ++at_;
      const std::string part = identifier();
      if (part.empty()) fail(at_, fmt::format("expected a name after '.', got {}", next()));
      name += "." + part;
    }
    return name;
  }

  // Parses the arguments after '('.
  void arguments(Node& call) {
    while (true) {
      skip_blanks();
      if (take(')')) return;
      const size_t begin = at_;
      const std::string name = identifier();
      skip_blanks();
      if (!name.empty() && take('=')) {
        if (peek() == '=') fail(at_ - 1, "expressions are not evaluated: write the value");
        if (call.entry(name) != nullptr) {
          fail(begin, fmt::format("argument '{}' is given twice", printable(name)));
        }
        call.map.push_back({name, span_.at(begin), value(0)});
      } else {
        at_ = begin;
        auto argument = value(0);
        if (!call.map.empty()) fail(begin, "a positional argument after a keyword argument");
        call.positional.push_back(std::move(argument));
      }
      if (!separator(')')) return;
    }
  }

  // Parses what follows an item. Returns true for ',', false for `close`.
  bool separator(char close) {
    skip_blanks();
    if (take(',')) return true;
    if (take(close)) return false;
    if (std::string_view("+-*/%<>=!&^~").find(peek()) != std::string_view::npos && at_ < end_) {
      fail(at_, "expressions are not evaluated: write the value");
    }
    fail(at_, fmt::format("expected ',' or '{}', got {}", close, next()));
  }

  std::shared_ptr<Node> value(int depth) {
    if (depth > limits::kCallNesting)
      fail(at_, fmt::format("nested more than {} levels deep", limits::kCallNesting));
    skip_blanks();
    auto node = std::make_shared<Node>();
    node->place = span_.at(at_);
    const char c = peek();
    if (c == '\'' || c == '"') {
      node->kind = Node::Kind::scalar;
      node->style = Node::Style::quoted;
      node->text = string_literal();
    } else if (c == '[') {
      ++at_;
      items(*node, ']', depth);
    } else if (c == '(') {
      return tuple(node, depth);
    } else if (c == '{') {
      dict(*node, depth);
    } else if (c == '-' || c == '.' || (c >= '0' && c <= '9')) {
      number(*node);
    } else {
      word(*node);
    }
    return node;
  }

  void items(Node& node, char close, int depth) {
    node.kind = Node::Kind::list;
    while (true) {
      skip_blanks();
      if (take(close)) return;
      node.list.push_back(value(depth + 1));
      if (!separator(close)) return;
    }
  }

  // "(x)" is x itself, "(x,)" is a tuple.
  std::shared_ptr<Node> tuple(const std::shared_ptr<Node>& node, int depth) {
    ++at_;
    items(*node, ')', depth);
    size_t last = at_ - 1;  // of ')'
    while (kBlank.find(span_.text[last - 1]) != std::string_view::npos) --last;
    const bool comma = span_.text[last - 1] == ',';
    return node->list.size() == 1 && !comma ? node->list[0] : node;
  }

  void dict(Node& node, int depth) {
    ++at_;
    node.kind = Node::Kind::map;
    while (true) {
      skip_blanks();
      if (take('}')) return;
      const size_t begin = at_;
      const auto key = value(depth + 1);
      if (key->kind != Node::Kind::scalar) fail(begin, "expected a string as the key");
      if (node.entry(key->text) != nullptr) {
        fail(begin, fmt::format("key '{}' is given twice", printable(key->text)));
      }
      skip_blanks();
      if (!take(':')) fail(at_, fmt::format("expected ':', got {}", next()));
      node.map.push_back({key->text, key->place, value(depth + 1)});
      if (!separator('}')) return;
    }
  }

  void number(Node& node) {
    const size_t begin = at_;
    take('-');
    while (at_ < end_) {
      const char c = span_.text[at_];
      const bool sign = (c == '-' || c == '+') && (span_.text[at_ - 1] | 0x20) == 'e';
      if (!name_part(c) && c != '.' && !sign) break;
      ++at_;
    }
    node.kind = Node::Kind::scalar;
    node.style = Node::Style::literal;
    node.text = span_.text.substr(begin, at_ - begin);
    if (!is_number(node.text)) {
      double unused = 0;  // the conversion fails; only its message is needed
      const auto wrong = convert(node, unused);
      fail(begin, wrong ? wrong->why : "expected a number");
    }
  }

  void word(Node& node) {
    const size_t begin = at_;
    const std::string name = dotted_name();
    node.kind = Node::Kind::scalar;
    node.style = Node::Style::literal;
    if (name == "None") {
      node.kind = Node::Kind::null;
    } else if (name == "True" || name == "False") {
      node.text = name == "True" ? "true" : "false";
    } else if (name == kNumClasses && constants_ != nullptr) {
      node.text = num_classes(*constants_).value_or("1");  // `auto` is not resolved yet
    } else if (name.empty()) {
      fail(begin, fmt::format("expected a value, got {}", next()));
    } else {
      const std::string hint = name == "true"                     ? "write True"
                               : name == "false"                  ? "write False"
                               : name == "null" || name == "none" ? "write None"
                               : peek() == '('
                                   ? "calls are not evaluated"
                                   : fmt::format("a string needs quotes: '{}'", printable(name));
      fail(begin, fmt::format("expected a value, got the name '{}' ({})", printable(name), hint));
    }
  }

  std::string string_literal() {
    const size_t begin = at_;
    const char quote = span_.text[at_++];
    std::string out;
    while (true) {
      if (at_ >= end_) fail(begin, "a string that is never closed (a string cannot hold '|')");
      const char c = span_.text[at_++];
      if (c == quote) return out;
      if (c == '\n') fail(begin, "a string that is never closed on its line");
      if (c != '\\' || at_ >= end_) {
        out += c;
        continue;
      }
      const char escaped = span_.text[at_++];
      if (escaped == '\\' || escaped == '\'' || escaped == '"') {
        out += escaped;
      } else if (escaped == 'n' || escaped == 't' || escaped == 'r') {
        out += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : '\r';
      } else if (std::string_view("01234567abfvxuUN\n").find(escaped) != std::string_view::npos) {
        fail(at_ - 2, "this escape is not supported: write the character itself");
      } else {
        out += '\\';  // as Python does: '\d' is a backslash and a d
        out += escaped;
      }
    }
  }

  const TextSpan& span_;
  size_t at_;
  const size_t end_;
  const Node* constants_;
};

std::vector<Call> parse_span(const TextSpan& span, const std::shared_ptr<Document>& document,
                             const std::string& path) {
  if (span.text.size() > limits::kCallBytes) {
    throw Error(Exit::usage, span.place, fmt::format("longer than {} bytes", limits::kCallBytes));
  }
  std::vector<Call> calls;
  std::vector<Error> problems;
  for (size_t begin = 0; begin <= span.text.size();) {
    const size_t end = std::min(span.text.find('|', begin), span.text.size());
    if (span.text.substr(begin, end - begin).find_first_not_of(kBlank) != std::string_view::npos) {
      try {
        auto [name, node] = Parser(span, begin, end, document->root.get()).call();
        const Place place = node->place;
        calls.push_back(
            {name, Config(node, document, fmt::format("{}[{}]: {}", path, calls.size(), name)),
             place});
      } catch (const Error& error) {
        problems.push_back(error);
      }
    }
    begin = end + 1;
  }
  throw_sorted(problems);
  return calls;
}

}  // namespace

std::vector<Call> parse_calls(std::string_view text, const Config& owner, std::string_view key) {
  const std::string path = join_path(owner.path_, key);
  const auto node = owner.find(key);
  const auto& entries = owner.node_->map;
  if (std::count(text.begin(), text.end(), '(') > std::count(text.begin(), text.end(), ')') &&
      std::any_of(entries.begin(), entries.end(), [&](const Node::Entry& entry) {
        return cut_entry(*owner.node_, entry) != nullptr;
      })) {
    owner.fail(key, kCutByComma);
  }
  TextSpan span{text, owner.place(key), false, shown_path(path)};
  if (node != nullptr && node->shift >= 0 && node->text == text && node->place.line > 0) {
    span.exact = true;
    span.place.column += node->shift;
  }
  try {
    return parse_span(span, owner.document_, path);
  } catch (const Error& error) {
    owner.give_up(error);
  }
}

std::string fill_constants(std::string_view text, const Config& owner) {
  const auto value = owner.document_->root ? num_classes(*owner.document_->root) : std::nullopt;
  if (!value) return std::string(text);
  std::string out;
  char quote = '\0';  // of the string that `i` is in
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool word_begins =
        name_start(c) && (i == 0 || (!name_part(text[i - 1]) && text[i - 1] != '.'));
    const std::string_view rest = text.substr(i);
    if (quote == '\0' && word_begins && rest.starts_with(kNumClasses) &&
        (rest.size() == kNumClasses.size() || !name_part(rest[kNumClasses.size()]))) {
      out += *value;
      i += kNumClasses.size() - 1;
      continue;
    }
    if (quote == '\0' && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = '\0';
    } else if (quote != '\0' && c == '\\' && i + 1 < text.size()) {
      out += text[i++];
    }
    out += text[i];
  }
  return out;
}

std::vector<Call> parse_calls(std::string_view text, const Place& origin) {
  return parse_span({text, origin, origin.line > 0, ""}, std::make_shared<Document>(), "");
}

}  // namespace bv
