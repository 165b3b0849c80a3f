// What `bvtrain init` says about data that it cannot use as it is.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lib/input/source.h"
#include "lib/input/sources/common/manifest/detect_csv.h"

namespace bv {

// Returns why `folder` cannot be used as data. Call it for a folder that no detector recognizes.
std::string unknown_folder(const std::string& folder);

// Returns why the CSV files in `folder` cannot be used as the data, to be appended to a message; ""
// if there are none.
std::string unused_list_hint(const std::string& folder);

// Returns why a CSV file in `folder` cannot be used as the data; "" if nothing is known. `chosen`:
// the labels that the user has chosen; nullptr: the column label or class.
std::string list_problem(const std::string& folder, const std::string& name,
                         const CsvLabels* chosen);

// Returns the column label or class of a CSV file in `folder`, as its header spells it; "" if it
// has none, or is no list of images.
std::string usual_label_column(const std::string& folder, const std::string& name);

// Throws Error(Exit::usage) if the labels of a split are known, and no image has one.
void refuse_empty_split(const Source& source, size_t split);

// Throws Error(Exit::usage) if the labels in a CSV file or jsonl file are regression targets. The
// detectors see only the first rows. `name`: of the source.
void refuse_targets(const Source& source, size_t split, const std::string& name);

// Throws Error(Exit::usage) with a line for each class folder without images in these splits of an
// image folder. Training stops at such a folder. skip_errors would prevent that, but would also
// hide images that are damaged later.
void refuse_empty_classes(const Source& source, const std::vector<std::string>& splits,
                          const std::string& folder);

// Throws Error(Exit::usage) with a line for each class of a split whose images all fail to decode.
// skip_errors would skip them, and the class would not be trained.
void refuse_unreadable_classes(const Source& source, size_t split, const std::string& folder);

}  // namespace bv
