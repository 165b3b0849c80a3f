// model_init: parameters from a file (reference section 10).
#pragma once

#include <string>
#include <vector>

#include "lib/train/params.h"

namespace bv {

// Copies the parameters of `path` into `params`. Read: .npz (big_vision's layouts params/...,
// opt/target/... or the parameters themselves; a suffix ":sub/tree" selects a subtree),
// .safetensors, and bvtrain checkpoints and workdirs. Parameters whose full name matches one of
// `dont_load` keep their values; every other one must be in the file with the same shape, and the
// file must have no others. Throws Error(Exit::usage), naming every mismatch, and writes nothing.
void load_weights(const std::string& path, const FlatParams& params,
                  const std::vector<std::string>& dont_load);

}  // namespace bv
