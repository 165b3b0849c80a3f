// Opens the data that `bvtrain init` has found.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "lib/init/data_findings.h"
#include "lib/input/source.h"

namespace bv {

// Returns the source with these keys (found.data) and those of the labels. `keep_broken`: as in
// SourceEnv.
std::shared_ptr<const Source> open_source(const DataFindings& found, const DataKeys& keys,
                                          bool keep_broken);

// Returns the index of a split; it must exist.
size_t index_of(const Source& source, const std::string& split);

}  // namespace bv
