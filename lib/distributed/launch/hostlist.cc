// Expands names in the same order as slurm's src/common/hostlist.c.
#include "lib/distributed/launch/hostlist.h"

#include <cstdint>
#include <optional>

#include "lib/util/error.h"
#include "lib/util/parse_count.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr size_t kMostHosts = 65536;
constexpr size_t kLongestList = 1 << 20;  // bytes
constexpr size_t kMostDigits = 9;         // so that a number fits into 32 bits

struct List {
  std::string_view text, where;

  [[noreturn]] void fail(const std::string& why) const {
    throw Error(Exit::usage, where,
                fmt::format("'{}' is not a host list: {}", text.substr(0, 200), why));
  }
};

std::optional<int64_t> number(std::string_view text) {
  return text.size() > kMostDigits ? std::nullopt : parse_count(text);
}

// One item of a bracket: "7" or "001-003".
void add_range(const List& list, std::string_view item, std::vector<std::string>& out) {
  const size_t dash = item.find('-');
  const std::string_view low_text = item.substr(0, dash);
  const std::string_view high_text =
      dash == std::string_view::npos ? low_text : item.substr(dash + 1);
  const auto low = number(low_text), high = number(high_text);
  if (!low || !high) list.fail(fmt::format("'{}' is not a number or a range", item));
  if (*high < *low) list.fail(fmt::format("the range '{}' runs backwards", item));
  if (static_cast<uint64_t>(*high - *low) >= kMostHosts - std::min(out.size(), kMostHosts - 1))
    list.fail(fmt::format("more than {} hosts", kMostHosts));
  for (int64_t i = *low; i <= *high; ++i)
    out.push_back(fmt::format("{:0{}}", i, low_text.size()));  // "001" keeps its zeros
}

// Replaces `names` by all combinations of a name and an ending.
void multiply(const List& list, std::vector<std::string>& names,
              const std::vector<std::string>& endings) {
  if (names.size() * endings.size() > kMostHosts)
    list.fail(fmt::format("more than {} hosts", kMostHosts));
  std::vector<std::string> product;
  product.reserve(names.size() * endings.size());
  for (const std::string& name : names)
    for (const std::string& ending : endings) product.push_back(name + ending);
  names = std::move(product);
}

bool is_name_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '_' || c == '.';
}

// Expands the host that begins at `at` and moves `at` to the first character after it.
std::vector<std::string> expand_host(const List& list, size_t& at) {
  const size_t begin = at;
  std::vector<std::string> names{""};
  while (at < list.text.size() && list.text[at] != ',') {
    const char c = list.text[at];
    if (c == '[') {
      const size_t close = list.text.find_first_of("[]", at + 1);
      if (close == std::string_view::npos || list.text[close] != ']')
        list.fail("a bracket is not closed");
      std::vector<std::string> endings;
      for (const std::string& item : split(list.text.substr(at + 1, close - at - 1), ','))
        add_range(list, item, endings);
      multiply(list, names, endings);
      at = close + 1;
    } else if (is_name_character(c)) {
      for (std::string& name : names) name += c;
      ++at;
    } else {
      list.fail(fmt::format("unexpected character at byte {}", at));
    }
  }
  if (at == begin) list.fail("an empty name");
  return names;
}

}  // namespace

std::vector<std::string> parse_hostlist(std::string_view text, std::string_view where) {
  const List list{text, where};
  if (text.empty()) list.fail("it is empty");
  if (text.size() > kLongestList) list.fail(fmt::format("longer than {} bytes", kLongestList));
  std::vector<std::string> hosts;
  size_t at = 0;
  while (true) {
    for (std::string& host : expand_host(list, at)) {
      if (hosts.size() == kMostHosts) list.fail(fmt::format("more than {} hosts", kMostHosts));
      hosts.push_back(std::move(host));
    }
    if (at == text.size()) return hosts;
    ++at;  // the comma
  }
}

std::vector<int> parse_counts(std::string_view text, std::string_view where) {
  std::vector<int> counts;
  const auto fail = [&](std::string_view item) {
    throw Error(Exit::usage, where,
                fmt::format("'{}': expected counts such as 4(x2),1", item.substr(0, 200)));
  };
  if (text.size() > kLongestList) fail(text);
  for (const std::string& item : split(text, ',')) {
    const size_t open = item.find("(x");
    const auto count = number(std::string_view(item).substr(0, open));
    std::optional<int64_t> times = 1;
    if (open != std::string::npos) {
      if (item.back() != ')') fail(text);
      times = number(std::string_view(item).substr(open + 2, item.size() - open - 3));
    }
    if (!count || !times || *count < 1 || *times < 1) fail(text);
    if (counts.size() + static_cast<size_t>(*times) > kMostHosts) fail(text);
    counts.insert(counts.end(), static_cast<size_t>(*times), static_cast<int>(*count));
  }
  return counts;
}

}  // namespace bv
