// The images of a data set, judged by a sample that is decoded.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lib/input/source.h"

namespace bv {

// Sides in pixels, of the image as its EXIF orientation turns it.
struct ImageSides {
  int64_t height = 0, width = 0;

  int64_t shorter() const { return height < width ? height : width; }
  bool operator==(const ImageSides&) const = default;
};
// Returns "640x480": the width, then the height.
std::string size_text(const ImageSides& size);

struct SampledImages {
  int64_t tried = 0;                // how many images were decoded
  std::vector<std::string> broken;  // a line for each of them that could not be decoded
  bool encoded = true;              // the source gives encoded files, otherwise arrays
  int64_t turned = 0;               // how many have an EXIF orientation other than 1
  int64_t deep = 0;                 // how many are PNG files of 16 bits per channel
  // By the number of pixels. `typical` is the median of the heights and of the widths.
  ImageSides smallest, largest, typical;
  bool equal = true;     // all have the same size
  int64_t channels = 3;  // 1 if every image is grey, even if it is stored in colour
  bool rank2 = false;    // arrays are (height, width), without channels
  at::ScalarType type = at::kByte;
  double least = 0, most = 255;  // values of arrays
};

// Decodes up to `limit` images of a split, taken along a fixed permutation, with several threads.
// It decodes fewer if they take more than 256 MiB of files. Throws Error(Exit::usage) without a
// place if the examples have no usable feature "image", if no image can be decoded, if an array has
// a value that is not finite, or if all values of the arrays are the same.
SampledImages sample_images(const Source& source, size_t split, int64_t limit);

// Decodes an image and returns a line that says why that fails; "" if it does not.
std::string decoding_problem(const Source& source, size_t split, int64_t index);

// Adds what preprocessing must know of the validation images to those of the training images: other
// sizes, orientations, and PNG files of 16 bits.
void add_validation(SampledImages& images, const SampledImages& validation);

}  // namespace bv
