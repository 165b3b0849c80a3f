#include "lib/input/image/jpeg.h"

#include <ATen/ops/empty.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "lib/input/image/jpeg_codec.h"
#include "lib/input/image/pixel_limit.h"
#include "lib/util/error.h"

namespace bv {
namespace {

void read_header(JpegDecoder& decoder) {
  if (!decoder.read_header()) throw Error::bare(Exit::data, decoder.message());
  check_decoded_size(decoder.height(), decoder.width());
}

int output_channels(const JpegDecoder& decoder, int channels) {
  check(channels == 0 || channels == 1 || channels == 3, "decode_jpeg to {} channels", channels);
  if (channels != 0) return channels;
  return decoder.components() == 1 ? 1 : 3;
}

at::Tensor decode(JpegDecoder& decoder, const JpegOutput& output, int64_t height, int64_t width) {
  at::Tensor image = at::empty({height, width, output.channels}, at::kByte);
  if (!decoder.decode(output, image.mutable_data_ptr<uint8_t>())) {
    throw Error::bare(Exit::data, decoder.message());
  }
  return image;
}

}  // namespace

JpegSize jpeg_size(std::span<const uint8_t> bytes) {
  JpegDecoder decoder(bytes.data(), bytes.size());
  read_header(decoder);
  return {decoder.height(), decoder.width(), output_channels(decoder, 0)};
}

at::Tensor decode_jpeg(std::span<const uint8_t> bytes, int channels, bool precise) {
  JpegDecoder decoder(bytes.data(), bytes.size());
  read_header(decoder);
  const JpegOutput output{.channels = output_channels(decoder, channels), .precise = precise};
  return decode(decoder, output, decoder.height(), decoder.width());
}

at::Tensor decode_jpeg_crop(std::span<const uint8_t> bytes, const Window& window, int channels,
                            bool precise) {
  JpegDecoder decoder(bytes.data(), bytes.size());
  read_header(decoder);
  check(window.y >= 0 && window.x >= 0 && window.height > 0 && window.width > 0 &&
            window.y + window.height <= decoder.height() &&
            window.x + window.width <= decoder.width(),
        "window {}x{} at ({}, {}) outside an image of {}x{}", window.height, window.width, window.y,
        window.x, decoder.height(), decoder.width());
  JpegOutput output{.channels = output_channels(decoder, channels), .precise = precise};
  output.y = static_cast<uint32_t>(window.y);
  output.x = static_cast<uint32_t>(window.x);
  output.height = static_cast<uint32_t>(window.height);
  output.width = static_cast<uint32_t>(window.width);
  return decode(decoder, output, window.height, window.width);
}

at::Tensor encode_jpeg(const at::Tensor& image, int quality) {
  check(image.dim() == 3 && (image.size(2) == 1 || image.size(2) == 3) &&
            image.scalar_type() == at::kByte && quality >= 1 && quality <= 100,
        "encode_jpeg takes (h, w, 1 or 3) uint8 and a quality of 1..100");
  check_image_size(image.size(0), image.size(1));
  const at::Tensor dense = image.contiguous();
  unsigned char* data = nullptr;
  unsigned long size = 0;
  char message[JMSG_LENGTH_MAX];
  const bool ok = jpeg_encode(dense.const_data_ptr<uint8_t>(), image.size(0), image.size(1),
                              static_cast<int>(image.size(2)), quality, &data, &size, message);
  const std::unique_ptr<unsigned char, decltype(&std::free)> owner(data, &std::free);
  check(ok, "encode_jpeg: {}", message);
  at::Tensor bytes = at::empty({static_cast<int64_t>(size)}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr<uint8_t>(), data, size);
  return bytes;
}

}  // namespace bv
