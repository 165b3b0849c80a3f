// The grey value of a colour, as libjpeg computes it.
#pragma once

#include <cstdint>

namespace bv {

// Uses 16-bit fixed-point weights and rounds.
inline uint8_t luma(const uint8_t* rgb) {
  return static_cast<uint8_t>((19595 * rgb[0] + 38470 * rgb[1] + 7471 * rgb[2] + 32768) >> 16);
}

}  // namespace bv
