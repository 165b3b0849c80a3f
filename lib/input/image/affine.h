// Affine transformation of an image, with bilinear interpolation.
#pragma once

#include <cstdint>

namespace bv {

// Maps output pixels to input positions: output pixel (x, y) shows the input at
// (xx x + xy y + x0, yx x + yy y + y0). Pixel centres are at integer coordinates.
struct AffineMap {
  double xx = 1, xy = 0, x0 = 0;
  double yx = 0, yy = 1, y0 = 0;
};

// Returns whether apply_affine() can transform an image of this size: its frame of fill values
// included, it must have fewer than 2^31 numbers.
bool affine_fits(int64_t height, int64_t width, int64_t channels);

// Transforms `in` to `out`, both (height, width, channels) and contiguous. T is uint8_t (rounded to
// nearest) or float. Positions outside the input have the value `fill`.
// Requires affine_fits().
template <class T>
void apply_affine(const T* in, int64_t height, int64_t width, int64_t channels,
                  const AffineMap& map, float fill, T* out);

}  // namespace bv
