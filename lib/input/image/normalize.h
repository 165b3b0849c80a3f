// Normalization of values: y = (x - low[c]) / range[c] * scale + offset for channel c.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace bv {

struct Normalization {
  // Devices normalize images of up to this many channels (image_pass.h).
  static constexpr size_t kMostOnDevice = 4;

  std::vector<float> low, range;  // one number for all channels, or one per channel; equal lengths
  float scale = 1, offset = 0;
  bool clip = false;  // clips the results to [clip_min, clip_max]
  float clip_min = 0, clip_max = 0;

  bool operator==(const Normalization&) const = default;
};

// Returns the normalized values as float32, for x of any real dtype, in float32 arithmetic and in
// this order of operations. If there is one number per channel, x's last dimension must be the
// channels; the caller checks this.
at::Tensor normalize(const at::Tensor& x, const Normalization& normalization);

}  // namespace bv
