// The passes of relu_avg_pool() over the memory of a CUDA device, without LibTorch. lib/model fills
// this struct, and lib/cuda/relu_avg_pool.cu runs the passes.
#pragma once

#include <cstdint>

#include "lib/util/bf16.h"

namespace bv {

// `wide` is (n, h, w, c), `pooled` and `alive` are (n, h/2, w/2, c); c is a multiple of 8. Bit p of
// `alive` is set if pixel p of the window was positive or NaN. Forward reads wide and writes the
// others. Backward reads the others and writes wide, except the last row or column if h or w is
// odd.
struct ReluAvgPoolPass {
  int64_t n, h, w, c;
  Numbers wide, pooled;  // of the same type
  uint8_t* alive;
};

// The plug-in's functions, which work on a CUDA stream.
using RunReluAvgPool = void(const ReluAvgPoolPass& pass, void* stream);

}  // namespace bv
