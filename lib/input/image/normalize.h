// Scaling values to a range: y = (x - low[c]) / range[c] * scale + offset, c the channel.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace bv {

struct Normalization {
  std::vector<float> low, range;  // one number for all channels, or one each; equal lengths
  float scale = 1, offset = 0;
  bool clip = false;  // to [clip_min, clip_max] at last
  float clip_min = 0, clip_max = 0;
};

// float32, whatever x is, in float32 arithmetic and this order of operations. With per-channel
// numbers x's last dimension must have as many entries: the caller checks.
at::Tensor normalize(const at::Tensor& x, const Normalization& how);

}  // namespace bv
