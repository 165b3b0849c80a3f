// PNG files to (height, width, channels) uint8 tensors, by libspng. All bit depths (16-bit values
// lose their lower 8 bits) and colour types, interlaced or not. Alpha is dropped, palettes are
// resolved.
//
// Broken files throw Error(Exit::data) without a place: "broken PNG: <reason>".
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace bv {

// Returns (height, width, channels) uint8. channels: 1 (colour becomes luma), 3 (grey is
// replicated) or 0 (1 for grey images, 3 for others). The limits are those of check_image_size().
at::Tensor decode_png(std::span<const uint8_t> bytes, int channels);

// Returns whether the bytes begin like a PNG file with 16 bits per channel.
bool is_png_of_16_bits(std::span<const uint8_t> bytes);

}  // namespace bv
