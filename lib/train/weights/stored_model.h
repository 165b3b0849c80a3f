// What a weights file or a checkpoint records about its model, in addition to the weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/ckpt/layouts/token_grid.h"

namespace bv {

struct StoredModel {
  std::vector<int64_t> image;  // height, width, channels after preprocessing; empty if unknown
  // The grid of the position embedding of a vit or flexi_vit, which may also be a fixed one.
  TokenGrid positions;
};

// Returns what bvtrain has recorded at `path`, which is as for read_weights(). Nothing is known of
// files of other programs (stored_arguments.h is about these), or if the metadata cannot be read.
// Throws Error(Exit::usage) if there is no such file.
StoredModel stored_model(const std::string& path);

}  // namespace bv
