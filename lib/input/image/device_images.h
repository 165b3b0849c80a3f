// Images that are copied to the training device as bytes: a quarter of the traffic of float32.
#pragma once

#include <ATen/core/Tensor.h>

#include "lib/input/image/image_pass.h"
#include "lib/input/image/normalize.h"

namespace bv {

// Normalizes uint8 images, and mixes each one with the image before it if `mixup` is defined.
// Returns float32: image i is y[i], or mixup[0] * y[i] + mixup[1] * y[i - 1], where y are the
// normalized images.
//   bytes   (n, height, width, channels) uint8, contiguous, on any device
//   mixup   (2) float32 on the same device
//   before  the image before the first one: (1, height, width, channels) uint8. Needed with `mixup`
//
// On CUDA one kernel does all of this; if plain_kernels(), LibTorch's operators do.
at::Tensor device_images(const at::Tensor& bytes, const Normalization& normalization,
                         const at::Tensor& mixup = {}, const at::Tensor& before = {});

// The kernel's arguments. There may be up to ImagePass::kChannels numbers in `normalization`.
ImagePass image_pass(const at::Tensor& bytes, const Normalization& normalization);

// The same as device_images(), with LibTorch's operators.
at::Tensor plain_device_images(const at::Tensor& bytes, const Normalization& normalization,
                               const at::Tensor& mixup, const at::Tensor& before);

}  // namespace bv
