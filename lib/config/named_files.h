// The files that a config names, which no output may replace.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/config/config.h"

namespace bv {

// Returns all scalar values of the YAML document to which `config` belongs, because each may name a
// file. Leaves out the values of the key `except`.
std::vector<std::string> named_files(const Config& config, std::string_view except = "");
// Returns whether `file` exists and is one of `names`. A name may be that of a part of a file,
// "two_towers.npz:img", or of a folder with a model.safetensors.
bool is_among(const std::string& file, const std::vector<std::string>& names);

}  // namespace bv
