#include "lib/config/key_table.h"

#include <algorithm>
#include <utility>

namespace bv {
namespace {

// A function-local static, because tables register while other globals are being initialized.
std::vector<KeyTable>& registered_tables() {
  static std::vector<KeyTable> instance;
  return instance;
}

}  // namespace

void KeyTable::add(const KeyTable& table) { registered_tables().push_back(table); }

const std::vector<KeyTable>& key_tables() {
  static const std::vector<KeyTable> sorted = [] {
    std::vector<KeyTable> tables = registered_tables();
    // The order in which files register depends on how the build groups and links them.
    const auto order = [](const KeyTable& table) {
      return std::pair(table.place, std::string_view(table.text.source.file_name()));
    };
    std::ranges::stable_sort(tables, {}, order);
    return tables;
  }();
  return sorted;
}

std::string table_place(std::string_view path) {
  const auto dots = std::count(path.begin(), path.end(), '.');
  const std::string_view last = path.substr(path.rfind('.') + 1);  // rfind() + 1 may be 0
  const bool of_evaluator = path.starts_with("evals.");
  const bool pair = last == "train" || last == "test";
  if ((path.starts_with("input.") && last == "data") ||
      (of_evaluator && dots > 1 && (last == "data" || pair)))
    return "input.data";
  return of_evaluator && dots == 1 ? "evals.*" : std::string(path);
}

bool has_row(std::string_view path, std::string_view key) {
  const std::string place = table_place(path);
  return std::any_of(key_tables().begin(), key_tables().end(), [&](const KeyTable& table) {
    const bool of_mapping = table.place == place || table.place.starts_with(place + ": ");
    return of_mapping && std::any_of(table.keys.begin(), table.keys.end(),
                                     [&](const KeyText& row) { return row.name == key; });
  });
}

}  // namespace bv
