// Sizes of images, windows in them, and the limits for both.
#pragma once

#include <cstdint>

namespace bv {

// Height and width in pixels.
struct Size {
  int64_t height = 0, width = 0;
};

// A rectangle of pixels whose top left corner is (y, x).
struct Window {
  int64_t y = 0, x = 0, height = 0, width = 0;
};

// Larger images are refused before memory is allocated: those of files when their header is read,
// and those that an op would make.
constexpr int64_t kMaxImageSide = 65500;
constexpr int64_t kMaxImagePixels = int64_t{1} << 28;
constexpr int64_t kMaxSquareSide = int64_t{1} << 14;  // of a square of kMaxImagePixels

// Throws Error(Exit::data) without a place if the image is larger than these limits, or empty.
void check_image_size(int64_t height, int64_t width);

}  // namespace bv
