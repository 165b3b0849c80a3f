// Cutting images into patches. A convolution whose stride equals its kernel size is a matmul of
// the patches with the flattened kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace bv {

// Cuts images (n, h, w, c) into patches: (n, h / height, w / width, height * width * c). A patch is
// flattened row-major, as a kernel (height, width, c, out) is. Pixels at the right and the bottom
// that do not fill a patch are cut off.
at::Tensor patches(const at::Tensor& image, int64_t height, int64_t width);

// Returns what patches() cuts off images of height x width pixels: "images of 30x30 with patches of
// 4x4: the last 2 columns and 2 rows of pixels are not used". Empty if it uses all pixels.
std::string cut_off_text(int64_t height, int64_t width, int64_t patch_height, int64_t patch_width);

// Pads images (n, h, w, c) with zeros up to whole patches: TensorFlow's SAME padding. If the
// padding is odd, its smaller half is at the left and the top.
at::Tensor pad_to_patches(const at::Tensor& image, int64_t height, int64_t width);

}  // namespace bv
