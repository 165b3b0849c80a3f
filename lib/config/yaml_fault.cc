#include "lib/config/yaml_fault.h"

#include <yaml-cpp/exceptions.h>

#include <cctype>
#include <optional>
#include <string>
#include <utility>

#include "lib/util/printable.h"

namespace bv {
namespace {

constexpr size_t kNowhere = std::string_view::npos;

// A line of block YAML, as far as it can be understood without its context.
struct YamlLine {
  size_t number = 0;        // counted from 0
  size_t begin = 0;         // offset of the first character that is not white space
  size_t column = 0;        // of that character, counted from 1
  std::string_view text;    // from there on, without "- " and comment
  bool is_item = false;     // there was a "- "
  size_t colon = kNowhere;  // in `text`: after the key
  bool has_key() const { return colon != kNowhere; }
  bool has_value() const { return text.find_first_not_of(' ', colon + 1) != kNowhere; }
  std::string key() const { return printable(text.substr(0, colon)); }
};

// Returns the position of the ':' after a key at the start of `text`.
size_t colon_of(std::string_view text) {
  size_t from = 0;
  if (!text.empty() && (text[0] == '\'' || text[0] == '"')) {
    from = text.find(text[0], 1);
    if (from == kNowhere) return kNowhere;
    ++from;
  }
  const size_t colon =
      std::min(text.find(": ", from), text.ends_with(':') ? text.size() - 1 : kNowhere);
  if (colon == kNowhere || (from > 0 && colon != from)) return kNowhere;
  return from == 0 && text.substr(0, colon).find_first_of("[]{}\"'#,") != kNowhere ? kNowhere
                                                                                   : colon;
}

class YamlFault {
 public:
  YamlFault(const SourceText& source, size_t where, std::string_view why)
      : source_(source), where_(where), why_(why), line_(read(source.line_of(where))) {}

  std::vector<Error> explain() const {
    if (const auto marker = merge_conflict()) return {*marker};
    if (const auto character = look_alike()) return {*character};
    const bool of_tab = why_ == YAML::ErrorMsg::TAB_IN_INDENTATION;
    const bool of_structure = why_.empty() || why_ == YAML::ErrorMsg::MAP_VALUE ||
                              why_ == YAML::ErrorMsg::END_OF_MAP ||
                              why_ == YAML::ErrorMsg::END_OF_SEQ || of_tab;
    if (!of_structure) return plain();
    const std::string_view text = source_.line(line_.number);
    const size_t indent = text.find_first_not_of(' ');
    if (indent != kNowhere && text[indent] == '\t') {
      return {source_.error(source_.begin_of_line(line_.number) + indent,
                            "a tab in the indentation: indent with spaces, not tabs")};
    }
    if (of_tab) return plain();
    return why_ == YAML::ErrorMsg::MAP_VALUE ? explain_colon() : explain_line();
  }

 private:
  YamlLine read(size_t number) const {
    YamlLine line;
    line.number = number;
    const std::string_view text = source_.line(number);
    size_t first = text.find_first_not_of(" \t");
    while (first != kNowhere && text.substr(first).starts_with("- ")) {
      line.is_item = true;
      first = text.find_first_not_of(' ', first + 2);
    }
    if (first == kNowhere || text[first] == '#') return line;
    line.begin = source_.begin_of_line(number) + first;
    line.column = first + 1;
    line.text = text.substr(first);
    if (const size_t comment = line.text.find(" #"); comment != kNowhere)
      line.text = line.text.substr(0, comment);
    while (line.text.ends_with(' ')) line.text.remove_suffix(1);
    line.colon = colon_of(line.text);
    return line;
  }

  // Returns the nearest line above `line` that is neither empty nor a comment.
  std::optional<YamlLine> above(const YamlLine& line) const {
    for (size_t number = line.number; number-- > 0;) {
      const YamlLine other = read(number);
      if (!other.text.empty()) return other;
    }
    return std::nullopt;
  }
  // Returns the nearest line above `line` that has a key.
  std::optional<YamlLine> key_above(const YamlLine& line) const {
    auto other = above(line);
    while (other && !other->has_key()) other = above(*other);
    return other;
  }

  std::optional<Error> merge_conflict() const {
    for (size_t number = 0; number < source_.lines(); ++number) {
      const std::string_view text = source_.line(number);
      if (text.starts_with("<<<<<<< ") || text.starts_with(">>>>>>> "))
        return source_.error(source_.begin_of_line(number), "a merge conflict marker");
    }
    return std::nullopt;
  }

  // Looks for Unicode characters, copied from a web page, that a reader takes for a space or a ':'.
  // Searches the faulty line and those before it.
  std::optional<Error> look_alike() const {
    for (size_t number = 0; number <= line_.number; ++number) {
      const YamlLine line = read(number);
      const std::string_view text = line.text.substr(0, line.text.find_first_of("'\"#"));
      if (line.has_key() || (line.is_item && number != line_.number)) continue;
      for (const auto& [character, why] :
           {std::pair("\u00a0", "a non-breaking space (U+00A0): write a usual space"),
            std::pair("\u200b", "an invisible character (U+200B): delete it"),
            std::pair("\uff1a", "a full-width colon (U+FF1A): write ':' and a space")}) {
        const size_t at = text.find(character);
        if (at != kNowhere) return source_.error(line.begin + at, why);
      }
    }
    return std::nullopt;
  }

  // yaml-cpp found a ':' that cannot follow a key.
  std::vector<Error> explain_colon() const {
    if (line_.has_key() && line_.begin + line_.colon < where_)
      return {source_.error(where_, "a second ': ' in this line: put the value in quotes")};
    const auto before = above(line_);
    if (!before || !line_.has_key()) return plain();
    if (before->has_key()) return line_.column > before->column ? deeper(*before) : plain();
    const auto owner = key_above(*before);
    const bool goes_on = owner && owner->has_value() && before->column > owner->column;
    return goes_on ? deeper(*owner) : without_colon(*before);
  }

  // yaml-cpp found a line, or the rest of one, that does not belong to the preceding block.
  std::vector<Error> explain_line() const {
    if (where_ > line_.begin) return behind_value();
    const auto before = key_above(line_);
    if (!before) return plain();
    if (line_.is_item) {
      return {
          source_.error(where_, before->column == line_.column || before->has_value()
                                    ? "a list item among the keys of a mapping: remove the '- '"
                                    : "a list item ('- ') that is not aligned with the others")};
    }
    if (!line_.has_key()) return without_colon(line_);
    if (line_.column > before->column) return deeper(*before);
    return shallower(*before);
  }

  std::vector<Error> behind_value() const {
    const std::string_view text = source_.text().substr(0, where_);
    const size_t last = text.find_last_not_of(" \t");
    const char end = last == kNowhere ? '\0' : text[last];
    if (end == '\'')
      return {source_.error(
          where_, "text after the closing quote: a quote inside single quotes is written ''")};
    if (end == '"')
      return {source_.error(
          where_, "text after the closing quote: a quote inside double quotes is written \\\"")};
    if (end == ']' || end == '}')
      return {source_.error(
          where_,
          fmt::format("text after the closing '{}': put the value in quotes if it is a string",
                      end))};
    return plain();
  }

  std::vector<Error> deeper(const YamlLine& other) const {
    std::string why = fmt::format(
        "'{}' is indented deeper than '{}' (line {}), which has a value already: begin it in "
        "column {}",
        line_.key(), other.key(), other.number + 1, other.column);
    // The line between two neighbours may be the one that is out of place.
    const auto neighbour = key_above(other);
    if (neighbour && neighbour->column == line_.column)
      why += fmt::format(", or '{}' in column {}", other.key(), line_.column);
    return {source_.error(line_.begin, why)};
  }

  std::vector<Error> shallower(YamlLine other) const {
    YamlLine inner = other;
    for (auto next = std::optional(other); next; next = key_above(other)) {
      other = *next;
      if (other.column == line_.column) return plain();
      if (other.column < line_.column) break;
      if (other.column < inner.column) inner = other;
    }
    const auto place = [](const YamlLine& line) {
      return fmt::format("'{}' (line {}) begins in column {}", line.key(), line.number + 1,
                         line.column);
    };
    std::string text =
        fmt::format("'{}' is not aligned with any key above it: {}", line_.key(), place(inner));
    if (other.column < line_.column) text += ", " + place(other);
    return {source_.error(line_.begin, text)};
  }

  // Returns a problem for `last` and for each line directly above it that has the same fault.
  std::vector<Error> without_colon(const YamlLine& last) const {
    std::vector<Error> problems;
    for (auto line = std::optional(last);
         line && !line->has_key() && line->column == last.column && !line->is_item;
         line = above(*line)) {
      problems.push_back(source_.error(line->begin, colon_hint(line->text)));
    }
    return problems.empty() ? plain() : problems;
  }

  static std::string colon_hint(std::string_view text) {
    size_t end = 0;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 ||
                                 text[end] == '_' || text[end] == '.' || text[end] == '-'))
      ++end;
    const std::string name = printable(text.substr(0, end));
    if (end == 0) return "expected 'key: value'";
    if (end == text.size()) return fmt::format("a ':' is missing after '{}'", name);
    const size_t value = text.find_first_not_of(" :=", end);
    const std::string write =
        value == kNowhere ? ""
                          : fmt::format(": write '{}: {}'", name, printable(text.substr(value)));
    return (text[end] == ':' ? "a space is missing after the ':'" : "a ':' is missing") + write;
  }

  // For faults that depend on a single character.
  std::string explain_character() const {
    const std::string_view rest = source_.text().substr(where_);
    const std::string word = printable(rest.substr(0, rest.find_first_of(" ,:]}\r\n")), 40);
    if (why_ == YAML::ErrorMsg::UNKNOWN_TOKEN)
      return fmt::format("a value cannot begin with '{}': put it in quotes",
                         printable(rest.substr(0, 1)));
    if (why_ == YAML::ErrorMsg::CHAR_IN_BLOCK)
      return "text after a '|' or '>' that begins a multi-line string: put the value in quotes";
    if (why_ == YAML::ErrorMsg::UNKNOWN_ANCHOR)
      return fmt::format(
          "'{}' refers to '&{}', which is not defined: put it in quotes if it is a string", word,
          word.substr(1));
    if (why_.starts_with(YAML::ErrorMsg::INVALID_ESCAPE) || why_ == YAML::ErrorMsg::INVALID_HEX)
      return "a '\\' in double quotes begins an escape: write '\\\\', or use single quotes";
    if (why_ == YAML::ErrorMsg::EOF_IN_SCALAR) return "a quote that is never closed";
    if (why_ == YAML::ErrorMsg::FLOW_END)
      return fmt::format("an unmatched '{}'", printable(rest.substr(0, 1)));
    return fmt::format("not valid YAML: {}",
                       why_.empty() ? "unexpected text after the end" : printable(why_));
  }

  std::vector<Error> plain() const { return {source_.error(where_, explain_character())}; }

  const SourceText& source_;
  const size_t where_;
  const std::string_view why_;
  const YamlLine line_;
};

// Explains the bracket at `bracket`, which is in a value without quotes and within other brackets.
Error explain_bracket_in_value(const SourceText& source, size_t bracket) {
  const std::string_view text = source.text();
  size_t begin = text.find_last_of(",[{\n", bracket - 1) + 1;
  if (const size_t colon = text.substr(0, bracket).rfind(": "); colon != kNowhere && colon >= begin)
    begin = colon + 2;
  begin = text.find_first_not_of(' ', begin);
  const size_t close = text.find_first_of("]}\n", bracket);
  const size_t end = std::min(text.find_first_of(",]}\n", close + 1), text.size());
  std::string value(close == kNowhere ? "" : text.substr(begin, end - begin));
  bool typographic = false;
  for (const std::string_view quote : {"\u201c", "\u201d", "\u2018", "\u2019"}) {
    for (size_t at = value.find(quote); at != std::string::npos; at = value.find(quote)) {
      value.erase(at, quote.size());
      typographic = true;
    }
  }
  std::string why =
      typographic
          ? "typographic quotes do not quote a value"
          : fmt::format("within brackets, a value with '{}' must be in quotes", text[bracket]);
  constexpr size_t kLongest = 40;
  if (!value.empty() && value.size() <= kLongest && value.find_first_of("\"\n") == kNowhere)
    why += fmt::format(": write \"{}\"", printable(value));
  return source.error(begin, why);
}

}  // namespace

std::vector<Error> explain_yaml_fault(const SourceText& source, size_t where,
                                      std::string_view why) {
  return YamlFault(source, where, why).explain();
}

Error explain_open_bracket(const SourceText& source, size_t open) {
  int depth = 0;
  char quote = '\0', last = '\0';
  size_t quoted = 0;  // where that quote begins
  bool comment = false;
  size_t in_value = kNowhere;  // the first bracket in a value without quotes
  const std::string_view text = source.text().substr(open);
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i], before = std::exchange(last, c);
    comment = c == '\n' ? false : comment || (quote == '\0' && c == '#' && before == ' ');
    if (comment) continue;
    const bool begins = std::string_view("\0 \t\r\n,:[{", 9).find(before) != kNowhere;
    if (quote != '\0') {
      if (c != quote || (quote == '"' && before == '\\')) continue;
      // It closes a quote of an earlier line, but more text follows: it was to open one.
      const std::string_view inside = text.substr(quoted, i - quoted), rest = text.substr(i + 1);
      if (inside.find('\n') != kNowhere && rest.find_first_of(" ,:]}\r\n") != 0)
        return source.error(open + quoted, "a quote that is never closed");
      quote = '\0';
    } else if (begins && (c == '\'' || c == '"')) {
      quote = c;
      quoted = i;
    } else if (c == '[' || c == '{') {
      if (!begins && std::string_view("$]}'\"").find(before) == kNowhere)
        in_value = std::min(in_value, i);
      ++depth;
    } else if ((c == ']' || c == '}') && --depth == 0) {
      if (in_value != kNowhere) return explain_bracket_in_value(source, open + in_value);
      const bool variable = text.substr(0, i).find("${") != kNowhere;
      return source.error(
          open, variable ? "within brackets, a value with '${...}' must be in quotes"
                         : "the entries in these brackets must be 'key: value' or values, with ',' "
                           "between them");
    }
  }
  if (quote != '\0') return source.error(open + quoted, "a quote that is never closed");
  return source.error(open, "a bracket that is never closed");
}

}  // namespace bv
