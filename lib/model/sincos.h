// vit's fixed position embedding (reference 9.1, `posemb: sincos2d`).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace bv {

// (1, h * w, features) float32, features a multiple of 4 and at least 8: sines and cosines of the
// column, then of the row.
at::Tensor sincos2d(int64_t h, int64_t w, int64_t features);

}  // namespace bv
