// Sizes of images, and windows in them.
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

// Throws Error(Exit::data) without a place if the image is empty, or larger than kImageSide and
// kImagePixels allow (lib/util/limits.h). Call it before memory is allocated for the pixels: with
// the size in the header of a file, and with the size of an image that an op would make.
void check_image_size(int64_t height, int64_t width);

}  // namespace bv
