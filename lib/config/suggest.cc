#include "lib/config/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <tuple>

#include "lib/config/config.h"
#include "lib/config/familiar_words.h"
#include "lib/config/key_table.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr size_t kMostListed = 8;
constexpr size_t kShortText = 72;  // a list of at most this many characters is shown as a whole

// Returns the parts of a name that consist of letters and digits, in lower case.
std::set<std::string> words_of(std::string_view name) {
  std::set<std::string> words;
  std::string word;
  for (const char c : std::string(name) + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!word.empty()) {
      words.insert(std::exchange(word, ""));
    }
  }
  return words;
}

// Returns the similarity of two names: first the number of common words, then the fraction of
// common letter pairs.
std::pair<size_t, double> likeness(std::string_view a, std::string_view b) {
  const std::set<std::string> words = words_of(a), others = words_of(b);
  const auto shared = std::count_if(words.begin(), words.end(),
                                    [&](const std::string& word) { return others.contains(word); });
  std::set<std::string_view> pairs, both;
  for (size_t i = 0; i + 1 < a.size(); ++i) pairs.insert(a.substr(i, 2));
  for (size_t i = 0; i + 1 < b.size(); ++i) {
    if (pairs.contains(b.substr(i, 2))) both.insert(b.substr(i, 2));
  }
  const auto most = static_cast<double>(std::max<size_t>(1, std::max(a.size(), b.size())));
  return {static_cast<size_t>(shared), static_cast<double>(both.size()) / most};
}

// The words that `bvtrain --list` takes, by the kind of plug-in.
const std::map<std::string_view, std::string_view> kLists = {
    {"model", "models"}, {"data source", "sources"},  {"op", "ops"},
    {"loss", "losses"},  {"optimizer", "optimizers"}, {"decay_type", "schedules"},
    {"task", "tasks"},   {"evaluator", "evals"}};

constexpr size_t kLongExample = 60;

// Returns the example of a table on one line, in braces. Empty if it is long or has several levels.
std::string flow_example(std::string_view yaml) {
  const std::string lines = join(split(yaml, '\n'), ", ");
  if (lines.empty() || lines.size() > kLongExample || yaml.find("\n ") != std::string_view::npos)
    return "";
  return lines.starts_with('{') ? lines : "{" + lines + "}";
}

// Returns the row of the key `path`; null if there is none. Rows of plug-ins do not count.
const KeyText* row_of_key(std::string_view path) {
  const size_t dot = path.rfind('.');
  const std::string_view mapping = dot == std::string_view::npos ? "" : path.substr(0, dot);
  const std::string_view name = dot == std::string_view::npos ? path : path.substr(dot + 1);
  for (const KeyTable& table : key_tables()) {
    for (const KeyText& row : table.keys) {
      if (table.place == mapping && row.name == name) return &row;
    }
  }
  return nullptr;
}

}  // namespace

std::string expected_mapping(std::string_view path) {
  for (const KeyTable& table : key_tables()) {
    const std::string example = table.place == path ? flow_example(table.text.example) : "";
    if (!example.empty()) return "expected a mapping such as " + example;
  }
  return "expected a mapping";
}

std::string with_list_example(std::string_view path, const std::string& message) {
  constexpr std::string_view kList = "expected a list, ";
  const KeyText* row = message.starts_with(kList) ? row_of_key(path) : nullptr;
  if (row == nullptr || !row->example.starts_with('[') || row->example.size() > kLongExample)
    return message;
  return fmt::format("expected a list such as {}, {}", row->example, message.substr(kList.size()));
}

std::vector<std::string> evaluators_with_key(std::string_view path, std::string_view key) {
  constexpr std::string_view kPlace = "evals.*: ";
  std::vector<std::string> types;
  if (!path.starts_with("evals.") || std::count(path.begin(), path.end(), '.') != 1) return {};
  for (const KeyTable& table : key_tables()) {
    const bool has_key = std::any_of(table.keys.begin(), table.keys.end(),
                                     [&](const KeyText& row) { return row.name == key; });
    if (has_key && table.place.starts_with(kPlace))
      types.emplace_back(table.place.substr(kPlace.size()));
  }
  constexpr size_t kFew = 3;
  if (types.size() > kFew) types.clear();
  return types;
}

std::string nearest_names(std::string_view name, const std::vector<std::string>& known,
                          std::string_view all_are_listed_by) {
  const std::string whole = join(known, ", ");
  if (known.size() <= kMostListed || whole.size() <= kShortText) return whole;
  std::vector<std::pair<std::pair<size_t, double>, std::string>> ranked;
  for (const std::string& other : known) ranked.push_back({likeness(name, other), other});
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (size_t i = 0; i < kMostListed; ++i) text += ranked[i].second + ", ";
  return text + "... (" + std::string(all_are_listed_by) + ")";
}

std::string unknown_name_message(std::string_view kind, std::string_view name,
                                 const std::vector<std::string>& known) {
  const FamiliarWord familiar = familiar_name(kind, name, known);
  if (!familiar.advice.empty())
    return fmt::format("unknown {} '{}': {}", kind, printable(name), familiar.advice);
  const std::string near =
      familiar.ours.empty() ? nearest(name, known) : std::string(familiar.ours);
  const auto list = kLists.find(kind);
  const std::string all = list == kLists.end()
                              ? fmt::format("{} in all", known.size())
                              : fmt::format("bvtrain --list {} prints all", list->second);
  return fmt::format("unknown {} '{}'{}; known: {}", kind, printable(name),
                     near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near),
                     nearest_names(name, known, all));
}

}  // namespace bv
