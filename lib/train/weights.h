// model_init: a model's parameters and buffers from a file (reference section 10, docs/weights.md).
#pragma once

#include <string>
#include <vector>

#include "lib/model/model.h"

namespace bv {

// The key model_load: {dont_load: [PATTERN, ...]}: of names that keep their fresh values.
struct DontLoad {
  std::vector<std::string> patterns = {};
  Place place = {};
};
DontLoad read_dont_load(const Config& config);  // records problems with the config

// What fills a parameter or buffer ("buffers/..."): of the same shape, of any floating type.
struct WeightCopy {
  std::string name;
  at::Tensor to, from;
};

// The weights of `path` (what read_weights() takes: npz, safetensors, checkpoints) for `model`, by
// the name maps and repairs of lib/ckpt/layouts. Parameters whose full name matches one of
// `dont_load` (regular expressions, of the model's names or the file's) keep their values; every
// other one must be in the file with the same shape, and the file must have no others; where a size
// differs, only pos_embedding is resampled, and what the model Refits. Throws Error(Exit::usage),
// one line naming every missing, unexpected and differing array. A pattern that matches nothing is
// warned of at `place`, where the patterns stand in the config. Writes nothing.
std::vector<WeightCopy> plan_weights(const std::string& path, const Model& model,
                                     const std::vector<std::string>& dont_load,
                                     const std::string& place = "");

// Does it all. On a model on the meta device this is a check alone.
void load_weights(const std::string& path, Model& model, const std::vector<std::string>& dont_load,
                  const std::string& place = "");

}  // namespace bv
