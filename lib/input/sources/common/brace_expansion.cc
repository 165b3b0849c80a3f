#include "lib/input/sources/common/brace_expansion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>

#include "lib/util/error.h"
#include "lib/util/limits.h"
#include "lib/util/printable.h"

namespace bv {
namespace {

using Names = std::vector<std::string>;

class BraceParser {
 public:
  explicit BraceParser(std::string_view text) : text_(text) {}

  Names parse() {
    Names names = sequence(/*depth=*/0);
    if (at_ < text_.size()) fail(at_, "'}' without '{'");  // a ',' outside of braces is text
    return names;
  }

 private:
  [[noreturn]] void fail(size_t at, std::string_view why) const {
    throw Error(Exit::usage, "",
                fmt::format("'{}': {} at character {}", printable(text_), why, at + 1));
  }
  [[noreturn]] void too_many() const {
    throw Error(
        Exit::usage, "",
        fmt::format("'{}' expands to more than {} files, or their names take more than {} MiB",
                    printable(text_), limits::kBraceNames, limits::kBraceNamesBytes >> 20));
  }

  // Parses up to the end of the string or, inside braces, up to a ',' or '}'.
  Names sequence(int depth) {
    Names names = {""};
    while (at_ < text_.size() && text_[at_] != '}' && (depth == 0 || text_[at_] != ',')) {
      if (text_[at_] == '{') {
        names = combined(names, group(depth + 1));
        continue;
      }
      const size_t end =
          std::min(text_.find_first_of(depth == 0 ? "{}" : "{},", at_), text_.size());
      names = combined(names, {std::string(text_.substr(at_, end - at_))});
      at_ = end;
    }
    return names;
  }

  Names group(int depth) {
    const size_t open = at_++;
    if (depth > limits::kBraceNesting)
      fail(open, fmt::format("braces nested more than {} deep", limits::kBraceNesting));
    const size_t end = text_.find_first_of("{},", at_);
    if (end != std::string_view::npos && text_[end] == '}') {
      const std::string_view content = text_.substr(at_, end - at_);
      at_ = end + 1;
      if (std::optional<Names> names = range(content)) return std::move(*names);
      fail(open, fmt::format("'{{{}}}' is neither a range such as {{000..127}} nor alternatives "
                             "such as {{a,b}}",
                             printable(content)));
    }
    Names names;
    size_t alternatives = 0, bytes = 0;
    for (;;) {
      ++alternatives;
      for (std::string& name : sequence(depth)) {
        bytes += name.size();
        if (names.size() == limits::kBraceNames || bytes > limits::kBraceNamesBytes) too_many();
        names.push_back(std::move(name));
      }
      if (at_ == text_.size()) fail(open, "'{' without '}'");
      if (text_[at_++] == '}') break;
    }
    if (alternatives == 1) fail(open, "braces without a range or a ','");
    return names;
  }

  Names combined(const Names& heads, const Names& tails) const {
    if (heads.size() > limits::kBraceNames / std::max<size_t>(1, tails.size())) too_many();
    const auto bytes_of = [](const Names& names) {
      size_t sum = 0;
      for (const std::string& name : names) sum += name.size();
      return sum;
    };
    // No overflow: a million names at most, of fewer than 2^32 bytes.
    if (bytes_of(heads) * tails.size() + bytes_of(tails) * heads.size() > limits::kBraceNamesBytes)
      too_many();
    Names all;
    all.reserve(heads.size() * tails.size());
    for (const std::string& head : heads) {
      for (const std::string& tail : tails) all.push_back(head + tail);
    }
    return all;
  }

  // Returns the names of "1..3", "001..127", "0..9..3" or "a..e"; nullopt if it is none of these.
  std::optional<Names> range(std::string_view content) const {
    std::vector<std::string_view> parts;
    for (size_t dots; (dots = content.find("..")) != std::string_view::npos;) {
      parts.push_back(content.substr(0, dots));
      content.remove_prefix(dots + 2);
    }
    parts.push_back(content);
    if (parts.size() < 2 || parts.size() > 3) return std::nullopt;
    const std::optional<int64_t> step = parts.size() == 3 ? number(parts[2]) : 1;
    if (!step || *step == 0) return std::nullopt;
    const auto is_letter = [](std::string_view part) {
      return part.size() == 1 && std::isalpha(static_cast<unsigned char>(part[0])) != 0;
    };
    if (is_letter(parts[0]) && is_letter(parts[1])) {
      return counted(parts[0][0], parts[1][0], *step,
                     [](int64_t value) { return std::string(1, static_cast<char>(value)); });
    }
    const std::optional<int64_t> first = number(parts[0]), last = number(parts[1]);
    if (!first || !last) return std::nullopt;
    const auto padded = [](std::string_view part) {
      if (part.starts_with('-')) part.remove_prefix(1);
      return part.size() > 1 && part[0] == '0';
    };
    const bool zeros = padded(parts[0]) || padded(parts[1]);
    const size_t width = zeros ? std::max(parts[0].size(), parts[1].size()) : 0;
    return counted(*first, *last, *step,
                   [&](int64_t value) { return fmt::format("{:0{}}", value, width); });
  }

  static std::optional<int64_t> number(std::string_view text) {
    constexpr size_t kMaxDigits = 18;  // fits an int64_t, and so does the difference of two
    int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (text.empty() || text.size() > kMaxDigits || error != std::errc() || rest != end)
      return std::nullopt;
    return value;
  }

  // Counts from `first` to `last`, up or down; the sign of `step` does not matter.
  template <class Text>
  Names counted(int64_t first, int64_t last, int64_t step, const Text& text) const {
    step = step < 0 ? -step : step;
    const int64_t steps = (last > first ? last - first : first - last) / step;
    if (steps >= static_cast<int64_t>(limits::kBraceNames)) too_many();
    Names names;
    for (int64_t i = 0; i <= steps; ++i)
      names.push_back(text(last > first ? first + i * step : first - i * step));
    return names;
  }

  const std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::vector<std::string> brace_expansion(std::string_view text) {
  return BraceParser(text).parse();
}

}  // namespace bv
