#include "lib/input/split.h"

#include <charconv>
#include <cmath>

#include "lib/util/error.h"
#include "lib/util/text.h"

namespace bv {
namespace {

[[noreturn]] void bad(const std::string& expression, const Place& place, std::string_view why) {
  throw Error(Exit::usage, place,
              fmt::format("bad split '{}': {}; examples: train, train[:99%], train[51200:], a+b",
                          expression, why));
}

std::optional<SplitTerm::Bound> parse_bound(std::string text, const std::string& expression,
                                            const Place& place) {
  if (text.empty()) return std::nullopt;
  SplitTerm::Bound bound;
  bound.percent = text.back() == '%';
  if (bound.percent) text.pop_back();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bound.value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) {
    bad(expression, place,
        fmt::format("'{}' is not an integer{}", text, bound.percent ? " percentage" : ""));
  }
  if (bound.percent && std::abs(bound.value) > 100) {
    bad(expression, place, fmt::format("{}% is not within -100% .. 100%", bound.value));
  }
  return bound;
}

SplitTerm parse_term(const std::string& text, const std::string& expression, const Place& place) {
  SplitTerm term;
  term.text = text;
  const size_t open = text.find('[');
  term.base = text.substr(0, open);
  if (term.base.empty() || term.base.find_first_of("]: \t") != std::string::npos) {
    bad(expression, place, term.base.empty() ? "a split name is missing" : "not a split name");
  }
  if (open == std::string::npos) return term;
  if (text.back() != ']') bad(expression, place, "']' is missing at the end");
  const std::string inner = text.substr(open + 1, text.size() - open - 2);
  const size_t colon = inner.find(':');
  if (colon == std::string::npos) bad(expression, place, "a slice needs ':'");
  term.begin = parse_bound(trim(inner.substr(0, colon)), expression, place);
  term.end = parse_bound(trim(inner.substr(colon + 1)), expression, place);
  if (term.begin && term.end && term.begin->percent != term.end->percent) {
    bad(expression, place, "both ends must be percentages, or neither");
  }
  return term;
}

}  // namespace

std::vector<SplitTerm> parse_split(const std::string& expression, const Place& place) {
  std::vector<SplitTerm> terms;
  for (const std::string& part : split(expression, '+')) {
    terms.push_back(parse_term(trim(part), expression, place));
  }
  return terms;
}

std::pair<int64_t, int64_t> SplitTerm::range(int64_t n, const Place& place) const {
  const auto absolute = [&](const std::optional<Bound>& bound, int64_t fallback) {
    if (!bound) return fallback;
    int64_t index = bound->value;
    if (bound->percent) {
      index = std::llrint(static_cast<double>(bound->value) * static_cast<double>(n) / 100.0);
    }
    // Not std::abs: -2^63 has no positive counterpart.
    if (index > n || index < -n) {
      throw Error(
          Exit::usage, place,
          fmt::format("split '{}': {} is outside the {} examples of '{}'", text, index, n, base));
    }
    return index < 0 ? n + index : index;
  };
  const int64_t first = absolute(begin, 0);
  const int64_t last = absolute(end, n);
  if (first >= last) {
    throw Error(Exit::usage, place,
                fmt::format("split '{}' is empty: '{}' has {} examples", text, base, n));
  }
  return {first, last};
}

}  // namespace bv
