// What the columns of a CSV file mean: which is the image, which are labels, and of what type the
// others are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/input/sources/common/manifest/csv_row.h"
#include "lib/input/sources/common/manifest/label_column.h"

namespace bv {

// What the user says about the columns.
struct CsvSettings {
  std::optional<std::string> path, split;
  std::vector<std::string> labels;  // empty: a column with a usual name, if there is one
  bool label_list = false;          // `label` is a list: its columns are one vector
  bool multilabel = false;
  std::optional<char> delimiter;
  std::vector<std::string> classes;
  std::string folder;  // of relative paths, "" for the working directory
};

enum class CsvRole : uint8_t {
  feature,  // a feature with the name of the column
  path,     // names the file of the feature `image`
  label,    // the feature `label`
  several,  // the labels of the row, for the feature `labels`
  target,   // a number of the vector `labels`
  split,
  unused
};

enum class CsvType : uint8_t { whole, real, text };

struct CsvColumn {
  std::string name;
  CsvRole role = CsvRole::feature;
  CsvType type = CsvType::whole;  // of a feature: the narrowest one that fits all cells
};

struct CsvLayout {
  char delimiter = ',';
  std::vector<CsvColumn> columns;
  std::vector<size_t> targets;  // the columns of the vector `labels`, in the order of the user
  LabelCode label;              // of the column with the role label or several
  bool bars = false;            // several labels are separated by ';' and '|', not by white space

  // Returns the column with this role, if there is one.
  std::optional<size_t> column_of(CsvRole role) const;
  // `names` are those of the classes.
  std::string pack() const;
  static std::optional<CsvLayout> unpack(std::string_view packed, std::vector<std::string> names);
};

// Returns what the columns mean, judging by the cells of the first row, and adds to `remarks` what
// a user should know about them. Throws RowFault if a column appears twice or is missing, or if the
// row names a file that exists: then it is not a header.
CsvLayout csv_layout(const std::vector<CsvCell>& header, char delimiter,
                     const CsvSettings& settings, std::vector<std::string>& remarks);

// Throws RowFault unless there are as many cells as columns. `row`: for the place.
void check_cell_count(const std::vector<CsvCell>& cells, const CsvLayout& layout,
                      std::string_view row);

// Returns the number in a cell of a vector `labels`. Throws RowFault if it is no finite number.
float target_number(const CsvCell& cell);

}  // namespace bv
