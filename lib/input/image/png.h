// PNG to HWC uint8 tensors, by libspng: all bit depths (16 bits lose the lower 8) and colour types,
// interlaced or not; alpha is dropped, palettes are resolved.
//
// Broken input throws Error(Exit::data) without a place: "broken PNG: <reason>".
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace bv {

// (h, w, channels) uint8. channels: 1 (colour becomes luma), 3 (grey is replicated) or 0 (1 for
// grey, else 3). Limits as in image/jpeg.h.
at::Tensor decode_png(std::span<const uint8_t> bytes, int channels);

}  // namespace bv
