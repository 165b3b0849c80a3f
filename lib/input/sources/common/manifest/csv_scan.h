#pragma once

#include <string>

#include "lib/input/sources/common/manifest/csv_layout.h"
#include "lib/input/sources/common/manifest/manifest_index.h"

namespace bv {

// Reads a whole CSV file: where its rows are, what its columns are, and its labels. Throws
// Error(Exit::usage); with `keep_broken` a row may be broken, unless that hides where the next row
// begins.
ManifestIndex scan_csv(const std::string& file, const CsvSettings& settings, bool keep_broken);

}  // namespace bv
