// Cutting windows out of images, and drawing them at random.
#pragma once

#include <cstdint>

#include "lib/input/image/jpeg.h"
#include "lib/util/rng.h"

namespace bv {

// What a random window may be: its area as a part of the image's, its width / height.
struct CropRange {
  double area_min = 0.05, area_max = 1;
  double aspect_min = 0.75, aspect_max = 1.33;
};

// The window of tf.image.sample_distorted_bounding_box (Inception's crop), reference section 12.6;
// the whole image if 100 attempts fail. Draws for each attempt: aspect, height; then y and x,
// each only where the window is smaller than the image.
Window sample_crop_window(int64_t height, int64_t width, const CropRange& range, Rng& rng);

// Copies `window`, which lies inside, of an image whose rows begin `row_bytes` apart.
void copy_window(const uint8_t* image, int64_t row_bytes, int64_t pixel_bytes, const Window& window,
                 uint8_t* out);

}  // namespace bv
