// JPEG to and from HWC uint8 tensors, by libjpeg-turbo. Reference section 12.5: the fast integer
// DCT unless `precise`, fancy upsampling always, EXIF orientation ignored.
//
// Broken input throws Error(Exit::data) whose text has no place ("truncated JPEG at byte 4096"):
// whoever knows the file adds it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace bv {

struct JpegSize {
  int64_t height = 0, width = 0, channels = 0;
};
struct Window {
  int64_t y = 0, x = 0, height = 0, width = 0;
};

// Images above this are refused by their header, before memory is taken.
constexpr int64_t kMaxImageSide = 65500;
constexpr int64_t kMaxImagePixels = int64_t{1} << 28;
// Throws Error(Exit::data) above these limits, and for an empty image.
void check_image_size(int64_t height, int64_t width);

// From the header alone; channels 1 for grey, else 3.
JpegSize jpeg_size(std::span<const uint8_t> bytes);
// (h, w, channels) uint8. channels: 1 (luma), 3 (grey is replicated) or 0 (as the file has it).
at::Tensor decode_jpeg(std::span<const uint8_t> bytes, int channels, bool precise);
// Decodes little more than the window, which must lie inside the image. Up to 2 grey levels from
// decode_jpeg() and a crop.
at::Tensor decode_jpeg_crop(std::span<const uint8_t> bytes, const Window& window, int channels,
                            bool precise);
// image: (h, w, 1 or 3) uint8; quality 1..100. Returns 1-d uint8.
at::Tensor encode_jpeg(const at::Tensor& image, int quality);

}  // namespace bv
