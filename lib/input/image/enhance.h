// Point operations and filters on RGB images, in place: RandAugment's, with the numbers of the
// TensorFlow code that big_vision runs. Reference section 12.7.
#pragma once

#include <cstdint>

namespace bv {

// Someone else's pixels.
struct RgbImage {
  uint8_t* pixels = nullptr;  // (height, width, 3), contiguous
  int64_t height = 0, width = 0;

  int64_t count() const { return height * width; }
};

// Each channel stretched to 0..255, truncated; one whose pixels are all equal stays.
void auto_contrast(const RgbImage& image);
// Each channel's histogram flattened.
void equalize(const RgbImage& image);
void invert(const RgbImage& image);
// Keeps the upper `bits`, but always one at least: TensorFlow's shifts stop at 7.
void posterize(const RgbImage& image, int64_t bits);
// Inverts what is not below the threshold, of which only the lower 8 bits count.
void solarize(const RgbImage& image, int64_t threshold);
// Adds to what is below 128.
void solarize_add(const RgbImage& image, int64_t addition);

// d + factor * (image - d), clipped and truncated, where d is ...
void blend_with_grey(const RgbImage& image, float factor);      // its grey image ("Color")
void blend_with_black(const RgbImage& image, float factor);     // "Brightness"
void blend_with_constant(const RgbImage& image, float factor);  // "Contrast", see enhance.cc
void blend_with_smoothed(const RgbImage& image, float factor);  // "Sharpness"

}  // namespace bv
