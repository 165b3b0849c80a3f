// What `bvtrain init` says about data that it cannot use as it is.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lib/input/source.h"

namespace bv {

// Returns why a folder that no detector recognises cannot be used.
std::string unknown_folder(const std::string& folder);

// Returns how to use a CSV file in `folder` that names images but has no column with their labels,
// to be appended to a message; "" if there is no such file.
std::string unlabelled_list_hint(const std::string& folder);

// Throws Error(Exit::usage) if the labels of a split are known, and no image has one.
void refuse_empty_split(const Source& source, size_t split);

// Throws Error(Exit::usage) with a line for each class folder without images in these splits of an
// image folder. Training stops at such a folder. skip_errors would prevent that, but would also
// hide images that are damaged later.
void refuse_empty_classes(const Source& source, const std::vector<std::string>& splits,
                          const std::string& folder);

}  // namespace bv
