// JPEG files to and from (height, width, channels) uint8 tensors, by libjpeg-turbo.
//
// The pixels are those of TensorFlow's decode_jpeg as big_vision calls it (pp/ops_image.py
// `get_decode`): the fast integer DCT unless `precise`, always with fancy upsampling. EXIF
// orientation is ignored.
//
// Broken files throw Error(Exit::data) without a place ("truncated JPEG at byte 4096"); the caller
// knows the file and adds it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "lib/input/image/geometry.h"

namespace bv {

struct JpegSize {
  int64_t height = 0, width = 0, channels = 0;
};

// Reads the header alone. The channels are 1 for a grey image, 3 otherwise.
JpegSize jpeg_size(std::span<const uint8_t> bytes);
// Returns (height, width, channels) uint8. channels: 1 (luma), 3 (grey is replicated) or 0 (as the
// file has it).
at::Tensor decode_jpeg(std::span<const uint8_t> bytes, int channels, bool precise);
// Returns a window of the image, with the same values as decode_jpeg(). The window must lie
// inside the image. Decodes little more than the window, unless the file is progressive and lacks
// scans.
at::Tensor decode_jpeg_crop(std::span<const uint8_t> bytes, const Window& window, int channels,
                            bool precise);
// Returns the bytes of a JPEG file as 1-d uint8. image: (height, width, 1 or 3) uint8; quality
// 1..100.
at::Tensor encode_jpeg(const at::Tensor& image, int quality);

}  // namespace bv
