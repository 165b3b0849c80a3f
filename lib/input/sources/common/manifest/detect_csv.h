// Which CSV files the source csv can read as the data of a folder: those that name images.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/input/detect_data.h"
#include "lib/input/sources/common/manifest/csv_layout.h"

namespace bv {

// The labels that a user has chosen.
struct CsvLabels {
  std::vector<std::string> columns = {};  // empty: a column with a usual name
  bool list = false;                      // the numbers of the columns are one vector
  bool multilabel = false;                // a cell of the only column holds several classes
};

// Returns the settings with which to read a file in `folder`. `chosen`: as for csv_data_keys().
CsvSettings settings_for(const std::string& folder, const CsvLabels* chosen);

// Returns the keys, without those of the labels, for a file with an image column that has a common
// name, and with the labels; nullopt for any other file. `head`: the first lines of the file.
// `chosen`: nullptr if the user has chosen no labels. Then the labels are one class per image, and
// files are left out whose images are in class folders, which the source image_folder reads. Throws
// Error(Exit::usage) if the labels of the first rows should be one class but are not, or if a
// column gives the split of each row.
std::optional<DataKeys> csv_data_keys(const std::string& file, const std::string& head,
                                      const CsvLabels* chosen);

}  // namespace bv
