// The size of a transformer encoder: the keys and variants that vit and flexi_vit share
// (big_vision's models/vit.py, `decode_variant`).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/config/config.h"
#include "lib/config/key_table.h"
#include "lib/model/variants.h"

namespace bv {

struct TransformerShape {
  int64_t width = 768, depth = 12, mlp_dim = 0, num_heads = 12;
  int64_t patch_height = 16, patch_width = 16;  // of the patches that become tokens
};

// The keys that read_transformer_shape() reads, except patch_size, whose default differs by model.
inline constexpr KeyText kTransformerShapeKeys[] = {
    {"variant", "string", "\"\"",
     "Name of a published size, from small to large: mu (for tests), Ti, S, M, B, L, So400m, H, g, "
     "g-opt, G-opt, G or e. It sets `width`, `depth`, `mlp_dim` and `num_heads`, and with a patch "
     "size, as in S/16, also `patch_size`. Explicit keys override it. Ti has about 6 million "
     "parameters, S 22, B 86, L 303 and H 630.",
     "S/16"},
    {"width", "int >= 1", "= 768, or that of `variant`",
     "Number of features of each token; it must be a multiple of `num_heads`. The number of "
     "parameters grows with its square."},
    {"depth", "int >= 1", "= 12, or that of `variant`",
     "Number of transformer blocks, one after the other. Time, memory and parameters grow in "
     "proportion to it."},
    {"mlp_dim", "int >= 1", "= 4 * width, or that of `variant`",
     "Number of hidden features in the MLP of each block."},
    {"num_heads", "int >= 1", "= 12, or that of `variant`",
     "Number of attention heads in each block; it must divide `width`. A head usually has 64 "
     "features, so a width of 384 has 6 heads."},
};

// Reads `variant`, and width, depth, mlp_dim (default: 4 * width), num_heads and patch_size, which
// win over the variant. `patch` is the default side of a patch. Throws Error(Exit::usage).
TransformerShape read_transformer_shape(const Config& config, int64_t patch);

// Returns the number of heads that published models of this width have; nullopt if there are none.
std::optional<int64_t> usual_heads(int64_t width);

// Returns the variants with the patch sizes they were published with, for `bvtrain --list models`.
std::vector<NamedVariant> transformer_variants();

}  // namespace bv
