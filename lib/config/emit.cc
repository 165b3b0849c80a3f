// Writes a tree as YAML that loads to the same values, as YAML on one line, or as JSON.
#include <cctype>
#include <cmath>

#include "lib/config/node.h"
#include "lib/util/text.h"

namespace bv {
namespace {

bool is_null_word(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

// Whether YAML reads `text` without quotes as the same plain scalar, also in a list on one line.
bool safe_plain(std::string_view text) {
  if (is_null_word(text) || text == "<<") return false;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) return false;
  }
  if (text.front() == ' ' || text.back() == ' ' || text.back() == ':') return false;
  // yaml-cpp ends a plain scalar of a list on one line at each '?'.
  if (text.find_first_of("[]{},?") != std::string_view::npos) return false;
  if (text.find(": ") != std::string_view::npos || text.find(" #") != std::string_view::npos ||
      text.find("${") != std::string_view::npos) {
    return false;
  }
  if (text.front() == '-' && !is_number(text)) return false;
  return std::string_view("?:,&*!|>'\"%@`#").find(text.front()) == std::string_view::npos &&
         text != "..." && text.front() != '=';
}

// The loader replaces ${NAME} in values, but not in keys, so values need "$${" for "${".
std::string quoted(std::string_view text, bool is_key) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += text[i];
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", c);
    } else if (!is_key && c == '$' && i + 1 < text.size() && text[i + 1] == '{') {
      out += "$$";
    } else {
      out += text[i];
    }
  }
  return out + '"';
}

std::string scalar_yaml(const Node& node) {
  if (node.kind == Node::Kind::null) return "null";
  // A quoted string that would read as another type without its quotes keeps them.
  const bool plain =
      safe_plain(node.text) && (node.style != Node::Style::quoted ||
                                (std::isalpha(static_cast<unsigned char>(node.text[0])) != 0 &&
                                 node.text != "true" && node.text != "false"));
  return plain ? node.text : quoted(node.text, false);
}

std::string key_yaml(const std::string& key) { return safe_plain(key) ? key : quoted(key, true); }

bool holds_map(const Node& node) {
  if (node.kind == Node::Kind::map) return true;
  for (const auto& item : node.list) {
    if (holds_map(*item)) return true;
  }
  return false;
}

void emit(const Node& node, bool with_origins, const std::string& indent, std::string& out);

// Writes the value after "key:" or "-", up to the end of its last line.
void emit_value(const Node& value, bool with_origins, const std::string& indent, std::string& out) {
  const bool block = (value.kind == Node::Kind::map && !value.map.empty()) ||
                     (value.kind == Node::Kind::list && holds_map(value));
  if (block) {
    out += '\n';
    emit(value, with_origins, indent + "  ", out);
    return;
  }
  out += ' ' + to_flow(value);
  if (with_origins) out += "  # " + origin(value.place);
  out += '\n';
}

void emit(const Node& node, bool with_origins, const std::string& indent, std::string& out) {
  for (const Node::Entry& entry : node.map) {
    out += indent + key_yaml(entry.key) + ':';
    emit_value(*entry.value, with_origins, indent, out);
  }
  for (const auto& item : node.list) {
    out += indent + '-';
    emit_value(*item, with_origins, indent, out);
  }
}

// Whether JSON allows this spelling of a number. It does not allow +1, .5 and 5.
bool is_json_number(std::string_view number) {
  if (number.starts_with('-')) number.remove_prefix(1);
  const auto digit_at = [&](size_t i) {
    return i < number.size() && std::isdigit(static_cast<unsigned char>(number[i])) != 0;
  };
  const size_t point = number.find('.');
  return digit_at(0) && (point == std::string_view::npos || digit_at(point + 1));
}

std::string scalar_json(const Node& node) {
  if (node.kind == Node::Kind::null) return "null";
  if (node.style != Node::Style::quoted) {
    if (node.text == "true" || node.text == "false") return node.text;
    double real = 0;
    if (is_number(node.text) && !convert(node, real)) {
      // The key may be read as a string, for which 0.50 is not 0.5.
      if (is_json_number(node.text)) return node.text;
      int64_t integer = 0;
      if (!convert(node, integer)) return fmt::format("{}", integer);
      // "-0" would be read as an integer, which has no negative zero.
      return real == 0 && std::signbit(real) ? "-0.0" : fmt::format("{}", real);
    }
  }
  return json_string(node.text);
}

}  // namespace

std::string origin(const Place& place) {
  if (place.file.empty()) return "default";
  if (place.line > 0)
    return fmt::format("{}:{}", printable(place.file, std::string::npos), place.line);
  return printable(place.file);
}

std::string to_flow(const Node& node) {
  std::string out;
  if (node.kind == Node::Kind::map) {
    for (const Node::Entry& entry : node.map) {
      out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", key_yaml(entry.key),
                         to_flow(*entry.value));
    }
    return "{" + out + "}";
  }
  if (node.kind == Node::Kind::list) {
    for (const auto& item : node.list) out += (out.empty() ? "" : ", ") + to_flow(*item);
    return "[" + out + "]";
  }
  return scalar_yaml(node);
}

std::string to_yaml(const Node& node, bool with_origins) {
  if (node.kind == Node::Kind::scalar || node.kind == Node::Kind::null) return to_flow(node) + "\n";
  if (node.map.empty() && node.list.empty()) return to_flow(node) + "\n";
  std::string out;
  emit(node, with_origins, "", out);
  return out;
}

std::string to_json(const Node& node) {
  std::string out;
  if (node.kind == Node::Kind::map) {
    for (const Node::Entry& entry : node.map) {
      out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", json_string(entry.key),
                         to_json(*entry.value));
    }
    return "{" + out + "}";
  }
  if (node.kind == Node::Kind::list) {
    for (const auto& item : node.list) out += (out.empty() ? "" : ", ") + to_json(*item);
    return "[" + out + "]";
  }
  return scalar_json(node);
}

}  // namespace bv
