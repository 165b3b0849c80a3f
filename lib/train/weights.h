// model_init: a model's parameters and buffers from a file (reference section 10, docs/weights.md).
#pragma once

#include <string>
#include <vector>

#include "lib/model/model.h"

namespace bv {

// Copies the weights of `path` (what read_weights() takes: npz, safetensors, checkpoints) into
// `model`, by the name maps and repairs of lib/ckpt/layouts. Parameters whose full name matches one
// of `dont_load` (regular expressions, of the model's names or the file's) keep their values; every
// other one must be in the file with the same shape, and the file must have no others; where a size
// differs, only pos_embedding is resampled, and what the model Refits. Throws Error(Exit::usage),
// one line naming every missing, unexpected and differing array, and then nothing was written. A
// pattern that matches nothing is warned of at `place`, where the patterns stand in the config. On
// a model on the meta device this is a check alone.
void load_weights(const std::string& path, Model& model, const std::vector<std::string>& dont_load,
                  const std::string& place = "");

}  // namespace bv
