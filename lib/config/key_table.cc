#include "lib/config/key_table.h"

#include <algorithm>

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
    std::stable_sort(tables.begin(), tables.end(),
                     [](const KeyTable& a, const KeyTable& b) { return a.place < b.place; });
    return tables;
  }();
  return sorted;
}

}  // namespace bv
