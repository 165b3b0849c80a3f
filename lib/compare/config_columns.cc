#include "lib/compare/config_columns.h"

#include <algorithm>
#include <map>
#include <set>

#include "lib/util/text.h"

namespace bv {
namespace {

// Returns the letters of the n-th long value: [A], [B], ..., [Z], [AA], ...
std::string letters(size_t n) {
  std::string out;
  for (++n; n > 0; n = (n - 1) / 26)
    out.insert(out.begin(), static_cast<char>('A' + static_cast<char>((n - 1) % 26)));
  return "[" + out + "]";
}

// Returns the strings without their common prefix and suffix.
std::map<std::string, std::string> without_common(const std::set<std::string>& texts,
                                                  char separator) {
  std::vector<std::vector<std::string>> all;
  size_t shortest = std::string::npos;
  for (const std::string& text : texts) {
    all.push_back(split(text, separator));
    shortest = std::min(shortest, all.back().size());
  }
  const auto same = [&](size_t i, bool from_end) {
    return std::all_of(all.begin(), all.end(), [&](const auto& parts) {
      return from_end ? parts[parts.size() - 1 - i] == all[0][all[0].size() - 1 - i]
                      : parts[i] == all[0][i];
    });
  };
  size_t first = 0, last = 0;
  while (first < shortest && same(first, false)) ++first;
  while (first + last < shortest && same(last, true)) ++last;
  std::map<std::string, std::string> out;
  for (const std::string& text : texts) {
    std::vector<std::string> parts = split(text, separator);
    parts.erase(parts.end() - static_cast<std::ptrdiff_t>(last), parts.end());
    parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(first));
    if (first > 0) parts.insert(parts.begin(), "...");
    if (last > 0) parts.emplace_back("...");
    out[text] = join(parts, std::string(1, separator));
  }
  return out;
}

}  // namespace

std::vector<ConfigColumn> config_columns(const Comparison& comparison, size_t longest) {
  std::vector<ConfigColumn> columns;
  size_t labels = 0;
  for (size_t key = 0; key < comparison.keys.size(); ++key) {
    ConfigColumn column{comparison.keys[key], {}, {}};
    std::vector<std::string> values;  // by group
    std::set<std::string> present;
    for (const RunGroup& group : comparison.groups) {
      const std::string json = comparison.config_value(group, key);
      values.push_back(value_text(json));
      if (!json.empty()) present.insert(values.back());
    }
    const auto too_long = [&](const auto& text) { return text.size() > longest; };
    std::map<std::string, std::string> shown;
    for (const std::string& value : present) shown[value] = value;
    if (std::any_of(present.begin(), present.end(), too_long)) {
      const bool ops = column.key.ends_with("pp") || column.key.ends_with("pp_fn");
      shown = without_common(present, ops ? '|' : '/');
    }
    for (auto& [value, text] : shown) {
      if (!too_long(text)) continue;
      text = letters(labels++);
      column.legend.emplace_back(text, value);
    }
    for (const std::string& value : values)
      column.texts.push_back(present.contains(value) ? shown.at(value) : value);
    columns.push_back(std::move(column));
  }
  return columns;
}

std::string group_label(const std::vector<ConfigColumn>& columns, size_t group) {
  std::vector<std::string> parts;
  for (const ConfigColumn& column : columns)
    parts.push_back(column.key + "=" + column.texts[group]);
  return join(parts, " ");
}

}  // namespace bv
