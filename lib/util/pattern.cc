// libstdc++ provides its breadth-first matcher through an extension, the flag __polynomial.
#include "lib/util/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <regex>

#include "lib/util/error.h"
#include "lib/util/limits.h"

namespace bv {
namespace {

constexpr size_t kShown = 60;  // bytes of a pattern that a message quotes

// Returns `text` as messages quote it: without control characters, and shortened between two
// characters of UTF-8.
std::string shown(const std::string& text) {
  size_t end = std::min(text.size(), kShown);
  while (end < text.size() && end > 0 && (text[end] & 0xC0) == 0x80) --end;
  std::string out;
  for (const char c : text.substr(0, end)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return out + (end < text.size() ? "..." : "");
}

// Returns the product of all counts {n} and {n,m}, an upper bound for how often any part is
// repeated; limits::kPatternStates + 1 if it is larger than limits::kPatternStates.
size_t repetitions(const std::string& text) {
  size_t product = 1;
  for (size_t i = text.find('{'); i != std::string::npos; i = text.find('{', i + 1)) {
    size_t most = 1;
    const char* at = text.data() + i + 1;
    const char* const end = text.data() + text.size();
    while (at < end && *at != '}') {
      size_t count = 0;
      const auto [rest, error] = std::from_chars(at, end, count);
      if (error == std::errc::result_out_of_range) return limits::kPatternStates + 1;
      most = std::max(most, count);
      at = std::max(rest, at + 1);
    }
    if (most > limits::kPatternStates / product) return limits::kPatternStates + 1;
    product *= most;
  }
  return product;
}

}  // namespace

struct Pattern::Compiled {
  explicit Compiled(const std::string& text)
      : regex(text, std::regex::ECMAScript | std::regex_constants::__polynomial) {}
  std::regex regex;
};

std::string Pattern::problem(const std::string& text) {
  if (text.size() > limits::kPatternBytes) {
    return fmt::format("the pattern '{}' has {} characters; at most {} are allowed", shown(text),
                       text.size(), limits::kPatternBytes);
  }
  if (text.size() * repetitions(text) > limits::kPatternStates) {
    return fmt::format("the pattern '{}' is too large with its repetitions written out",
                       shown(text));
  }
  try {
    Compiled{text};
  } catch (const std::regex_error&) {
    return fmt::format(
        "the pattern '{}' is not a valid regular expression (ECMAScript grammar: no lookbehind, no "
        "(?i), no named groups, no back-references)",
        shown(text));
  }
  return "";
}

std::string Pattern::name_problem(const std::string& text) {
  if (!text.starts_with('/')) return problem(text);
  return fmt::format("the pattern '{}' starts with '/', but no parameter's name does; drop the '/'",
                     shown(text));
}

Pattern::Pattern(std::string text) : text_(std::move(text)) {
  if (const std::string why = problem(text_); !why.empty()) throw Error(Exit::usage, "", why);
  compiled_ = std::make_shared<const Compiled>(text_);
}

bool Pattern::matches(std::string_view name) const {
  return std::regex_match(name.begin(), name.end(), compiled_->regex);
}

}  // namespace bv
