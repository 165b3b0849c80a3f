// The part of a config that describes data, for a folder of data without a config.
#pragma once

#include <string>

#include "lib/config/config.h"

namespace bv {

// Finds out through the detectors of the sources (lib/input/detect_data.h) what `folder` holds, and
// returns a config. Its `input` has all splits of the data. If the validation data are apart, for
// example in another file, its evaluator `val` has all splits of those. Throws Error(Exit::usage)
// at `folder` if it is not a folder, or if it holds no data that can be recognized.
Config folder_config(const std::string& folder);

}  // namespace bv
