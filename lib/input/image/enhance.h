// The point operations and filters of RandAugment, in place on RGB images.
//
// They reproduce the results of big_vision's pp/archive/autoaugment.py (pp/archive/randaug.py calls
// it), including its known peculiarities, which are noted below.
#pragma once

#include <cstdint>

namespace bv {

// A view of someone else's pixels.
struct RgbImage {
  uint8_t* pixels = nullptr;  // (height, width, 3), contiguous
  int64_t height = 0, width = 0;

  int64_t count() const { return height * width; }
};

// Stretches each channel to 0..255, truncating. A channel with one value only stays unchanged.
void auto_contrast(const RgbImage& image);
// Equalizes the histogram of each channel.
void equalize(const RgbImage& image);
// Replaces each value v by 255 - v.
void invert(const RgbImage& image);
// Keeps the upper `bits` bits of each value, at least one: TensorFlow's shifts stop at 7.
void posterize(const RgbImage& image, int64_t bits);
// Inverts the values at or above the threshold, of which only the lower 8 bits count.
void solarize(const RgbImage& image, int64_t threshold);
// Adds `addition` to the values below 128, clipping to 0..255.
void solarize_add(const RgbImage& image, int64_t addition);

// Replace the image by d + factor * (image - d), clipped and truncated, where d is ...
void blend_with_grey(const RgbImage& image, float factor);      // its grey image ("Color")
void blend_with_black(const RgbImage& image, float factor);     // black ("Brightness")
void blend_with_constant(const RgbImage& image, float factor);  // pixel count / 256 ("Contrast")
void blend_with_smoothed(const RgbImage& image, float factor);  // its smoothed image ("Sharpness")

}  // namespace bv
