// The JSON Schema (draft 7) of a config: editors complete keys with it and mark wrong ones.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace bv {

// Each mapping and each plug-in has its own definition, under its place: "input", "model: vit". A
// mapping whose keys depend on a plug-in takes those of the one that is named, and allows no
// others.
//
// What a schema cannot express is left to the program: whether the pp strings, patterns and
// durations make sense, and whether files exist.
nlohmann::ordered_json config_schema();

}  // namespace bv
