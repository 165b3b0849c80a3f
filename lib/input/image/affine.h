// Moving an image by an affine map, with bilinear interpolation.
#pragma once

#include <cstdint>

namespace bv {

// Output pixel (x, y) shows the input at (xx x + xy y + x0, yx x + yy y + y0); pixel centres are at
// whole numbers.
struct AffineMap {
  double xx = 1, xy = 0, x0 = 0;
  double yx = 0, yy = 1, y0 = 0;
};

// T: uint8_t (rounded to nearest) or float. in, out: (height, width, channels), contiguous. Beyond
// its edge the input is `fill` everywhere.
template <class T>
void apply_affine(const T* in, int64_t height, int64_t width, int64_t channels,
                  const AffineMap& map, float fill, T* out);

}  // namespace bv
