// The config of a folder of data that no config names, as far as it is about data.
#pragma once

#include <string>

#include "lib/config/config.h"

namespace bv {

// Finds out through the detectors of the sources (lib/input/detect_data.h) what `folder` holds, and
// returns a config whose `input` has all splits of it, and whose evaluator `val` has those of its
// validation data if they are apart, for example in another file. Throws Error(Exit::usage) at the
// folder if it is none, or if it holds no data that can be recognised.
Config folder_config(const std::string& folder);

}  // namespace bv
