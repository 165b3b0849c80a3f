#include "lib/input/split.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>

#include "lib/input/shuffle.h"
#include "lib/util/error.h"
#include "lib/util/parse_count.h"
#include "lib/util/text.h"

namespace bv {
namespace {

using Unit = SplitTerm::Unit;
using Part = SplitTerm::Part;

// The seed of the order in which examples are assigned to folds. It must never change.
constexpr uint64_t kFoldSeed = 0xF01D;

// Returns " (write 80%)" for "0.8", and "" for a string that is not a fraction.
std::string percent_hint(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  const bool fraction = error == std::errc{} && rest == end && value != 0 && std::abs(value) < 1;
  return fraction ? fmt::format(" (write {:g}%)", 100 * value) : "";
}

// Removes each '_' between two digits, as in 51_200: Python, and so TFDS, ignores it.
void remove_digit_separators(std::string& text) {
  const auto is_digit = [&](size_t at) {
    return at < text.size() && text[at] >= '0' && text[at] <= '9';
  };
  for (size_t at = text.find('_'); at != std::string::npos; at = text.find('_', at)) {
    if (at > 0 && is_digit(at - 1) && is_digit(at + 1))
      text.erase(at, 1);
    else
      ++at;
  }
}

// Parses one split expression.
class SplitParser {
 public:
  SplitParser(const std::string& expression, const Place& place)
      : expression_(expression), place_(place) {}

  SplitTerm term(const std::string& text) const {
    SplitTerm term;
    term.text = text;
    const size_t open = text.find('[');
    term.base = text.substr(0, open);
    if (term.base.empty() || term.base.find_first_of("]: \t") != std::string::npos)
      bad(term.base.empty() ? "a split name is missing" : "not a split name");
    for (size_t at = open; at < text.size();) {
      const size_t close = text.find(']', at);
      if (text[at] != '[') bad(fmt::format("'{}' follows ']'", text.substr(at)));
      if (close == std::string::npos) bad("']' is missing at the end");
      add_selection(trim(text.substr(at + 1, close - at - 1)), at == open, term);
      at = close + 1;
    }
    return term;
  }

 private:
  [[noreturn]] void bad(std::string_view why) const {
    throw Error(Exit::usage, place_,
                fmt::format("bad split '{}': {}; examples: train, train[:99%], train[51200:], a+b",
                            expression_, why));
  }

  // Adds the content of a pair of brackets to `term`: a slice, which only the first pair may
  // contain, or a part.
  void add_selection(const std::string& text, bool first, SplitTerm& term) const {
    for (const auto& [word, part] : {std::pair("even ", Part::even), std::pair("fold ", Part::fold),
                                     std::pair("not fold ", Part::not_fold)}) {
      if (!text.starts_with(word)) continue;
      if (term.part != Part::whole) bad("give only one of 'fold', 'not fold' and 'even'");
      term.part = part;
      return add_part(trim(text.substr(std::string_view(word).size())), term);
    }
    if (!first) bad(fmt::format("'{}' is not a part such as fold 2/5", text));
    add_slice(text, term);
  }

  void add_part(const std::string& text, SplitTerm& term) const {
    const size_t slash = text.find('/');
    const auto number = parse_count(trim(text.substr(0, slash)));
    const auto parts =
        slash == std::string::npos ? std::nullopt : parse_count(trim(text.substr(slash + 1)));
    if (!number || !parts || *number < 1 || *number > *parts)
      bad(fmt::format("'{}' is not a part such as 2/5, from 1/5 to 5/5", text));
    if (term.part != Part::even && *parts < 2)
      bad("with a single fold, nothing is left to train on");
    term.number = *number;
    term.parts = *parts;
  }

  void add_slice(const std::string& text, SplitTerm& term) const {
    const size_t colon = text.find(':');
    if (colon == std::string::npos) {
      term.begin = bound(text);
      if (!term.begin || term.begin->unit != Unit::shards) bad("a slice needs ':'");
      term.end = term.begin;
      ++term.end->value;
      return;
    }
    term.begin = bound(trim(text.substr(0, colon)));
    term.end = bound(trim(text.substr(colon + 1)));
    if (term.begin && term.end && term.begin->unit != term.end->unit) {
      const bool percent = term.begin->unit == Unit::percent || term.end->unit == Unit::percent;
      bad(fmt::format("if one end of a slice is given in {}, the other must be too",
                      percent ? "percentages" : "shards"));
    }
  }

  std::optional<SplitTerm::Bound> bound(std::string text) const {
    if (text.empty()) return std::nullopt;
    SplitTerm::Bound bound;
    if (text.ends_with('%')) {
      bound.unit = Unit::percent;
      text.pop_back();
    } else if (text.ends_with("shard")) {
      bound.unit = Unit::shards;
      text.resize(text.size() - 5);
    }
    remove_digit_separators(text);
    const bool percent = bound.unit == Unit::percent;
    const char* const end = text.data() + text.size();
    const auto [rest, error] =
        percent ? std::from_chars(text.data(), end, bound.percent, std::chars_format::fixed)
                : std::from_chars(text.data(), end, bound.value);
    if (error != std::errc{} || rest != end || text.empty() || !std::isfinite(bound.percent))
      bad(fmt::format("'{}' is not {}", text,
                      percent                        ? "a percentage"
                      : bound.unit == Unit::examples ? "an integer" + percent_hint(text)
                                                     : "an integer"));
    if (std::abs(bound.percent) > 100)
      bad(fmt::format("{}% is not within -100% .. 100%", bound.percent));
    return bound;
  }

  const std::string& expression_;
  const Place& place_;
};

// Returns the number of examples in the shards before `bound`. A negative bound counts from the
// end, and so does 0 as the end of a slice (splits.py, _rel_to_abs_instr).
int64_t examples_before(int64_t bound, std::span<const int64_t> shards, bool at_end) {
  const int64_t count = std::ssize(shards);
  if (bound < 0 || (at_end && bound == 0)) bound += count;
  const int64_t kept = std::clamp<int64_t>(bound, 0, count);
  return std::accumulate(shards.begin(), shards.begin() + kept, int64_t{0});
}

}  // namespace

std::vector<SplitTerm> parse_split(const std::string& expression, const Place& place) {
  const SplitParser parser(expression, place);
  std::vector<SplitTerm> terms;
  for (const std::string& part : split(expression, '+')) terms.push_back(parser.term(trim(part)));
  return terms;
}

bool SplitTerm::in_shards() const {
  return (begin && begin->unit == Unit::shards) || (end && end->unit == Unit::shards);
}

std::pair<int64_t, int64_t> SplitTerm::range(int64_t n, const Place& place,
                                             std::span<const int64_t> shards) const {
  const auto fail = [&](std::string_view why) {
    throw Error(Exit::usage, place, fmt::format("split '{}'{}", text, why));
  };
  const auto absolute = [&](const std::optional<Bound>& bound, bool at_end) {
    if (!bound) return at_end ? n : int64_t{0};
    if (bound->unit == Unit::shards) {
      if (shards.empty())
        fail(
            ": this data has no shards (only tfds, tfrecord and webdataset data has shards; "
            "generated data has none)");
      return examples_before(bound->value, shards, at_end);
    }
    int64_t index = bound->value;
    if (bound->unit == Unit::percent)
      index = std::llrint(bound->percent * static_cast<double>(n) / 100.0);
    // Not std::abs: -2^63 has no positive counterpart.
    if (index > n || index < -n)
      fail(fmt::format(": {} is outside the {} examples of '{}'", index, n, base));
    return index < 0 ? n + index : index;
  };
  int64_t first = absolute(begin, false), last = absolute(end, true);
  if (part == Part::even && first < last) {
    // The first `rest` parts have one more example (subsplits_utils.py, _EvenSplit).
    const int64_t each = (last - first) / parts, rest = (last - first) % parts;
    const int64_t from = first + (number - 1) * each + std::min(number - 1, rest);
    last = first + number * each + std::min(number, rest);
    first = from;
  }
  if (first >= last) fail(fmt::format(" is empty: '{}' has {} examples", base, n));
  return {first, last};
}

std::vector<int64_t> fold_positions(const SplitTerm& term, int64_t n,
                                    std::span<const int64_t> labels) {
  std::map<int64_t, std::vector<int64_t>> classes;  // the positions of each class
  for (int64_t i = 0; i < n; ++i) classes[labels.empty() ? 0 : labels[i]].push_back(i);
  std::vector<int64_t> chosen;
  int64_t dealt = 0;
  for (const auto& [label, positions] : classes) {
    const int64_t count = std::ssize(positions);
    for (int64_t i = 0; i < count; ++i, ++dealt) {
      const bool held = dealt % term.parts == term.number - 1;
      if (held == (term.part == Part::fold))
        chosen.push_back(positions[shuffle(kFoldSeed, static_cast<uint64_t>(label), i, count)]);
    }
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace bv
