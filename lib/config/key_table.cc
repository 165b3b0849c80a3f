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

}  // namespace bv
