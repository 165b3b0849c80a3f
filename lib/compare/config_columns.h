// The keys that differ between runs, as columns of a table.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lib/compare/comparison.h"

namespace bv {

struct ConfigColumn {
  std::string key;
  std::vector<std::string> texts;  // by group; different values have different strings
  // A table shows a value that is too long for it as a letter. These are the letters and their
  // values.
  std::vector<std::pair<std::string, std::string>> legend;
};

// Strings are at most `longest` bytes where that is possible. Long lists of pp ops and long paths
// are cut to the part that differs: "...|resize(64)|...".
std::vector<ConfigColumn> config_columns(const Comparison& comparison, size_t longest);

// Returns "lr=0.01 wd=0.1", the values of all columns in a group.
std::string group_label(const std::vector<ConfigColumn>& columns, size_t group);

}  // namespace bv
