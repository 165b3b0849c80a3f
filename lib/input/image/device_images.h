// Images that reach the device of training as bytes: a quarter of what float32 would move.
#pragma once

#include <ATen/core/Tensor.h>

#include "lib/input/image/image_pass.h"
#include "lib/input/image/normalize.h"

namespace bv {

// Returns the normalized images as float32. If `mixup`, (2) float32 on the device, is defined, they
// are mixed: image i becomes mixup[0] * y[i] + mixup[1] * y[i - 1]. `bytes`: (n, height, width,
// channels) uint8, contiguous, on any device. `before`: the image before the first one, (1, height,
// width, channels) uint8; only needed with `mixup`.
//
// On CUDA one kernel does all of it, or operators of LibTorch if plain_kernels().
at::Tensor device_images(const at::Tensor& bytes, const Normalization& normalization,
                         const at::Tensor& mixup = {}, const at::Tensor& before = {});

// What the kernel gets. There may be up to ImagePass::kChannels numbers in `normalization`.
ImagePass image_pass(const at::Tensor& bytes, const Normalization& normalization);

// The same as device_images(), by operators of LibTorch.
at::Tensor plain_device_images(const at::Tensor& bytes, const Normalization& normalization,
                               const at::Tensor& mixup, const at::Tensor& before);

}  // namespace bv
