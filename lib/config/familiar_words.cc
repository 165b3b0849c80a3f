#include "lib/config/familiar_words.h"

#include <algorithm>
#include <cctype>

#include "lib/config/familiar_table.h"
#include "lib/util/text.h"

namespace bv {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// Returns the fields of each line of a table.
Rows read_table(std::string_view table) {
  std::vector<std::string> lines;
  for (const std::string& line : split(table, '\n')) {
    const std::string text = trim(line.substr(0, line.starts_with('#') ? 0 : line.size()));
    if (text.empty()) continue;
    if (line.starts_with(' '))
      lines.back() += " " + text;
    else
      lines.push_back(text);
  }
  Rows rows;
  for (const std::string& line : lines) {
    std::vector<std::string>& row = rows.emplace_back();
    for (size_t begin = 0; begin < line.size();) {
      const size_t end = std::min(line.find(" | ", begin), line.size());
      const std::string field = line.substr(begin, end - begin);
      row.push_back(field == "-" ? "" : field);
      begin = end + 3;
    }
  }
  return rows;
}

bool has_word(const std::string& words, std::string_view word) {
  const std::vector<std::string> all = split(words, ' ');
  return std::find(all.begin(), all.end(), word) != all.end();
}

// Returns the word as the tables spell it.
std::string normal(std::string_view word) {
  std::string out;
  for (const char c : word) {
    out += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

// Returns the row whose first field is `first` and whose second field has `word`; null if there is
// none.
const std::vector<std::string>* find_row(const Rows& rows, std::string_view first,
                                         std::string_view word) {
  if (word.empty()) return nullptr;
  for (const auto& row : rows) {
    if (row.at(0) == first && has_word(row.at(1), word)) return &row;
  }
  return nullptr;
}

FamiliarWord find_key(std::string_view mapping, std::string_view word) {
  static const Rows rows = read_table(kFamiliarKeys);
  const auto* row = find_row(rows, mapping, word);
  return row == nullptr ? FamiliarWord{} : FamiliarWord{row->at(2), row->at(3)};
}

const Rows& places() {
  static const Rows rows = read_table(kKeyPlaces);
  return rows;
}

// Returns the tables' name for the mapping at `path`; "" if they have none.
std::string_view mapping_at(std::string_view path) {
  if (path.empty()) return "top";
  for (const std::string_view name : {"input", "model", "optax", "mixup", "early_stop"}) {
    if (path == name) return name;
  }
  const bool call = path.find(": ") != std::string_view::npos;  // of an op
  const auto dots = std::count(path.begin(), path.end(), '.');
  if (call) return "";
  if (path.starts_with("schedule") && dots == 0) return "schedule";
  if (path == "input.data" || (path.starts_with("evals.") && path.ends_with(".data")))
    return "data";
  return path.starts_with("evals.") && dots == 1 ? "evaluator" : "";
}

}  // namespace

FamiliarWord familiar_key(std::string_view path, std::string_view key) {
  const size_t call = path.find(": ");  // of an op
  return find_key(call == std::string_view::npos ? mapping_at(path) : path.substr(call),
                  normal(key));
}

FamiliarWord familiar_flag(std::string_view flag) {
  const std::string word = normal(flag.substr(std::min(flag.find_first_not_of('-'), flag.size())));
  const FamiliarWord own = find_key("flag", word);
  if (!own.ours.empty() || !own.advice.empty()) return own;
  if (find_row(places(), "top", word) != nullptr) return {word, ""};  // a key
  return find_key("top", word);
}

FamiliarWord familiar_name(std::string_view kind, std::string_view name,
                           const std::vector<std::string>& known) {
  static const Rows rows = read_table(kFamiliarNames);
  const auto* row = find_row(rows, kind, normal(name));
  if (row == nullptr || std::find(known.begin(), known.end(), row->at(2)) == known.end()) return {};
  return {row->at(2), row->at(3)};
}

std::optional<std::string> well_known_mapping(std::string_view path, std::string_view key) {
  const std::string_view here = mapping_at(path);
  if (here.empty()) return std::nullopt;
  for (const auto& row : places()) {
    const std::string& mapping = row.at(0);
    if (mapping == here || !has_word(row.at(1), key)) continue;
    return mapping == "top" ? "" : mapping == "evaluator" ? "evals.NAME" : mapping;
  }
  return std::nullopt;
}

}  // namespace bv
