// WebP files to (height, width, channels) uint8 tensors, by libwebp. Still images, lossy and
// lossless. Alpha is dropped. The EXIF orientation is ignored.
//
// Broken files throw Error(Exit::data) without a place: "truncated WebP at byte 4096" or "broken
// WebP: <reason>". So do animated files, because it is not clear which frame is meant.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace bv {

// Says why an animated file can't be used.
constexpr std::string_view kAnimatedWebp =
    "animated WebP images are not supported: save one frame of it";

// Returns (height, width, channels) uint8. channels: 1 (luma), 3 or 0 (3: WebP has no grey images).
// The limits are those of check_image_size().
at::Tensor decode_webp(std::span<const uint8_t> bytes, int channels);

}  // namespace bv
