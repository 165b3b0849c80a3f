// The position embeddings of vit and flexi_vit: `get_posemb` in big_vision's models/vit.py.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "lib/config/config.h"
#include "lib/config/key_table.h"
#include "lib/model/constant.h"
#include "lib/model/module.h"

namespace bv {

// The key that add_position_embedding() reads.
inline constexpr KeyText kPosembKeys[] = {
    {"posemb", "'learn' | 'sincos2d'", "learn",
     "Type of position embedding: `learn` trains a vector for each position, `sincos2d` uses fixed "
     "sines and cosines and needs a `width` that is a multiple of 4 and at least 8. For published "
     "weights, use what they were trained with, mostly `learn`; `sincos2d` is a good choice for "
     "training from scratch."},
};

// The embedding of a grid of h x w tokens: (1, h * w, width).
struct PositionEmbedding {
  at::Tensor learned;  // the parameter "pos_embedding"; undefined if there is a table
  Constant table;
  // Returns the embedding with the device and the type of `like`.
  at::Tensor on(const at::TensorOptions& like) const;
};

// Reads the key `posemb`.
//   learn     a parameter, which starts normal with deviation 1 / sqrt(width)
//   sincos2d  a constant table; throws Error(Exit::usage) if the width does not allow one
PositionEmbedding add_position_embedding(Module& owner, const Config& config, int64_t h, int64_t w,
                                         int64_t width);

// Returns the sincos2d table (1, h * w, features) float32: sines and cosines of the column, then
// of the row. `features` must be a multiple of 4 and at least 8.
at::Tensor sincos2d(int64_t h, int64_t w, int64_t features);

}  // namespace bv
