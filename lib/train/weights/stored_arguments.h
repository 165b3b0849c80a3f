// What timm or Hugging Face states about a model next to its weights. The arrays have the same
// shapes whatever these arguments are. A model with other arguments would load them silently and
// compute nonsense.
#pragma once

#include <cstdint>
#include <string>

#include "lib/ckpt/layouts/token_grid.h"
#include "lib/ckpt/tensors.h"

namespace bv {

struct StoredArguments {
  int64_t heads = 0;                          // the number of attention heads; 0: not stated
  std::string pool = {};                      // timm's global_pool; "": not stated
  int64_t image_height = 0, image_width = 0;  // of the images of timm's model; 0: not stated
  // `bvtrain export --format timm` has written the file, for a model with bvtrain's own formulas.
  bool own_formulas = false;
};

// Returns what is stated about the weights at `path` (read_weights() describes `path`): in the
// metadata of a timm file of `bvtrain export`, or else in the config.json of Hugging Face or timm
// next to the file (json_beside()). Throws Error(Exit::usage) if there is no such file, and at the
// config.json if that cannot be read.
StoredArguments stored_arguments(const std::string& path);

// Throws Error(Exit::usage) at `path` if `stored` has another pooling than a vit of bvtrain with
// the arrays of `file`, the weights by the names of their program. Does nothing for programs other
// than timm.
void check_pooling(const NamedTensors& file, const StoredArguments& stored,
                   const std::string& path);

// Returns the grid of the position embedding of `file`, weights by timm's names, that follows from
// the stored image size; {} if that is not stated or does not fit.
TokenGrid stored_grid(const NamedTensors& file, const StoredArguments& stored);

}  // namespace bv
