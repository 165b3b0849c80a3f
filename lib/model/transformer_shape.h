// The size of a transformer encoder: the keys and variants that vit and flexi_vit share
// (big_vision's models/vit.py, `decode_variant`).
#pragma once

#include <cstdint>
#include <vector>

#include "lib/config/config.h"
#include "lib/model/variants.h"

namespace bv {

struct TransformerShape {
  int64_t width = 768, depth = 12, mlp_dim = 0, num_heads = 12;
  int64_t patch_height = 16, patch_width = 16;  // of the patches that become tokens
};

// Reads `variant`, and width, depth, mlp_dim (default: 4 * width), num_heads and patch_size, which
// win over the variant. `patch` is the default side of a patch. Throws Error(Exit::usage).
TransformerShape read_transformer_shape(const Config& config, int64_t patch);

// Returns the variants with the patch sizes they were published with, for `bvtrain --list models`.
std::vector<NamedVariant> transformer_variants();

}  // namespace bv
