// Random crop windows, and copying windows out of images.
#pragma once

#include <cstdint>

#include "lib/input/image/geometry.h"
#include "lib/util/rng.h"

namespace bv {

// The limits of a random window: its area as a fraction of the image's, and its width / height.
struct CropRange {
  double area_min = 0.05, area_max = 1;
  double aspect_min = 0.75, aspect_max = 1.33;
};

// Draws a window with the distribution of tf.image.sample_distorted_bounding_box (Inception's
// crop): the aspect ratio is uniform, then the height is uniform among those of a permitted area.
// Returns the whole image if 100 attempts fail.
//
// Draws per attempt: aspect ratio, height, then y and x, each only if the window is smaller than
// the image in that direction.
Window sample_crop_window(int64_t height, int64_t width, const CropRange& range, Rng& rng);

// Copies `window` of an image to `out`, contiguously. The window must be inside the image; the
// image's rows begin `row_bytes` apart.
void copy_window(const uint8_t* image, int64_t row_bytes, int64_t pixel_bytes, const Window& window,
                 uint8_t* out);

}  // namespace bv
