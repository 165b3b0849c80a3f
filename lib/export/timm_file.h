// Writes weights for timm: a safetensors file with timm's names for the tensors, and with the
// arguments of timm's class in the metadata, such that
//     Class(**arguments).load_state_dict(load_file(F))
// computes the same as the model. See docs/weights.md; scripts/golden/check_export.py checks it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lib/export/trained_model.h"

namespace bv {

// `params` are those of `trained` with timm's names. `arguments` is an object; it is stored as JSON
// text. Throws Error(Exit::storage).
void write_timm(const std::string& output, const TrainedModel& trained, const NamedTensors& params,
                const std::string& timm_class, const nlohmann::json& arguments);

// Returns the ratio from which timm computes int(width * ratio) = features. Half a feature is added
// where the division has a remainder, so that rounding does not lose a feature.
double timm_ratio(int64_t features, int64_t width);

}  // namespace bv
