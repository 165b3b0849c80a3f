// The gradient of the kernel of direct_conv.h, and the sizes that both share.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace bv {

// About how many rows and columns a product has. The sums of such a product fit into the L1 cache.
inline constexpr int64_t kProductSide = 64;
// Appended to the rows of operands. Without it, the same column of several rows would often map to
// the same cache set.
inline constexpr int64_t kRowGap = 32;

// n images of h x w pixels, and a kernel of size x size taps. Tap (i, j) of the pixel (y, x) is the
// pixel (y + i - border(), x + j - border()).
struct ConvSizes {
  int64_t n, h, w, in, out, size;

  int64_t taps() const { return size * size; }
  int64_t border() const { return (size - 1) / 2; }
};

// Returns the float32 gradient of the kernel (size, size, in, out), stored as (out, size, size,
// in). x is (n, in, h, w), and grad (n, out, h, w) is the gradient of the result. Both are bfloat16
// and channels_last. Sums are float32.
at::Tensor direct_kernel_gradient(const ConvSizes& s, const at::Tensor& x, const at::Tensor& grad);

}  // namespace bv
