#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// The patches of images (n, h, w, c) side by side: (n, h / height, w / width, height * width * c),
// row-major within a patch, as a kernel (height, width, c, out) flattens. What is left of the image
// at the right and the bottom is cut off. A convolution whose stride is its size is a matmul of
// these.
at::Tensor patches(const at::Tensor& image, int64_t height, int64_t width);

// Images (n, h, w, c) with a border of zeros up to whole patches: padding SAME in TensorFlow's
// sense, the smaller half at the left and the top.
at::Tensor pad_to_patches(const at::Tensor& image, int64_t height, int64_t width);

}  // namespace bv
