// Mean and standard deviation of pixel values, accumulated over any number of images.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace bv {

// In float64. Sums of images that are merged in the same order are equal, bit for bit.
struct PixelMoments {
  double count = 0;  // of values
  double mean = 0;
  double squares = 0;  // the sum of (value - mean)^2

  void merge(const PixelMoments& other);
  double deviation() const;  // of the values around their mean: sqrt(squares / count)
};

// Returns the moments of each channel of an image (h, w, c), or (h, w) for one channel. 8-bit
// values are scaled to 0..1, others are not scaled.
std::vector<PixelMoments> pixel_moments(const at::Tensor& image);

}  // namespace bv
