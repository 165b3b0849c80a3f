// Cutting images into patches. A convolution whose stride equals its kernel size is a matmul of
// the patches with the flattened kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace bv {

// Cuts images (n, h, w, c) into patches: (n, h / height, w / width, height * width * c). A patch is
// row-major, as a kernel (height, width, c, out) flattens. Pixels at the right and the bottom that
// do not fill a patch are cut off.
at::Tensor patches(const at::Tensor& image, int64_t height, int64_t width);

// Pads images (n, h, w, c) with zeros up to whole patches: TensorFlow's SAME padding. If the border
// is odd, its smaller half is at the left and the top.
at::Tensor pad_to_patches(const at::Tensor& image, int64_t height, int64_t width);

}  // namespace bv
