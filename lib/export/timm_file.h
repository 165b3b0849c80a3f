// Weights for timm: safetensors in its names, the arguments of its class in the metadata, so that
//     Class(**arguments).load_state_dict(load_file(F))
// computes what the model does (docs/weights.md; scripts/golden/check_export.py proves it).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lib/ckpt/tensors.h"

namespace bv {

// Throws Error(Exit::storage).
void write_timm(const std::string& output, const NamedTensors& params,
                const std::string& timm_class, const nlohmann::json& arguments);

// timm truncates width * ratio; half a feature more keeps rounding from losing one.
double timm_ratio(int64_t features, int64_t width);

}  // namespace bv
