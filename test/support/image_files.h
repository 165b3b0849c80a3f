// Encoded images for tests, and EXIF data in them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <spng.h>
#include <webp/encode.h>

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "lib/input/image/jpeg.h"

namespace bv::test {

inline std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
inline std::string text_of(const at::Tensor& bytes) {
  return {reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>()),
          static_cast<size_t>(bytes.numel())};
}

inline std::string flat_jpeg(int value) {
  return text_of(encode_jpeg(at::full({8, 8, 3}, value, at::kByte), 90));
}

// Encodes pixels as a PNG file of the given colour type and depth.
inline std::string encode_png(const std::vector<uint8_t>& raw, uint32_t height, uint32_t width,
                              uint8_t color_type, uint8_t depth, spng_plte* palette = nullptr) {
  spng_ctx* context = spng_ctx_new(SPNG_CTX_ENCODER);
  spng_ihdr header{width, height, depth, color_type, 0, 0, 0};
  spng_set_option(context, SPNG_ENCODE_TO_BUFFER, 1);
  spng_set_ihdr(context, &header);
  if (palette) spng_set_plte(context, palette);
  spng_encode_image(context, raw.data(), raw.size(), SPNG_FMT_RAW, SPNG_ENCODE_FINALIZE);
  size_t size = 0;
  int error = 0;
  void* data = spng_get_png_buffer(context, &size, &error);
  const std::string file(static_cast<char*>(data), data ? size : 0);
  std::free(data);
  spng_ctx_free(context);
  return file;
}
// image: (h, w, 3) uint8.
inline std::string png_of(const at::Tensor& image) {
  const at::Tensor dense = image.contiguous();
  const auto* pixels = dense.const_data_ptr<uint8_t>();
  return encode_png({pixels, pixels + dense.numel()}, dense.size(0), dense.size(1),
                    SPNG_COLOR_TYPE_TRUECOLOR, 8);
}

// image: (h, w, 3 or 4) uint8. Lossless except for the colour of transparent pixels, or with
// quality 90.
inline std::string webp_of(const at::Tensor& image, bool lossless) {
  const at::Tensor dense = image.contiguous();
  const auto* pixels = dense.const_data_ptr<uint8_t>();
  const int height = static_cast<int>(dense.size(0)), width = static_cast<int>(dense.size(1));
  const bool alpha = dense.size(2) == 4;
  const int stride = width * static_cast<int>(dense.size(2));
  uint8_t* out = nullptr;
  size_t size = 0;
  if (lossless && alpha) size = WebPEncodeLosslessRGBA(pixels, width, height, stride, &out);
  if (lossless && !alpha) size = WebPEncodeLosslessRGB(pixels, width, height, stride, &out);
  if (!lossless && alpha) size = WebPEncodeRGBA(pixels, width, height, stride, 90, &out);
  if (!lossless && !alpha) size = WebPEncodeRGB(pixels, width, height, stride, 90, &out);
  const std::string file(reinterpret_cast<const char*>(out), size);
  WebPFree(out);
  return file;
}

// Returns the lowest `count` bytes of `value`.
inline std::string number_text(uint64_t value, int count, bool little) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    const int byte = little ? i : count - 1 - i;
    text += static_cast<char>(value >> (8 * byte) & 0xFF);
  }
  return text;
}

// Returns EXIF data (a TIFF structure) with an orientation and another tag.
inline std::string exif_data(int orientation, bool little = true) {
  const auto number = [&](uint64_t value, int count) { return number_text(value, count, little); };
  return std::string(little ? "II*\0" : "MM\0*", 4) + number(8, 4) + number(2, 2) +
         number(0x0100, 2) + number(4, 2) + number(1, 4) + number(640, 4) +  // the width
         number(0x0112, 2) + number(3, 2) + number(1, 4) + number(orientation, 2) + number(0, 2) +
         number(0, 4);
}

// Returns an APPn segment of a JPEG file.
inline std::string jpeg_segment(int n, const std::string& content) {
  return "\xFF" + std::string(1, static_cast<char>(0xE0 + n)) +
         number_text(content.size() + 2, 2, false) + content;
}
// Returns a JPEG file with an EXIF segment after its start marker.
inline std::string jpeg_with_exif(const std::string& file, const std::string& exif) {
  return file.substr(0, 2) + jpeg_segment(1, std::string("Exif\0\0", 6) + exif) + file.substr(2);
}

// Returns a chunk of a RIFF file.
inline std::string riff_chunk(const std::string& name, const std::string& content) {
  return name + number_text(content.size(), 4, true) + content +
         std::string(content.size() % 2, '\0');
}
// Returns a WebP file of these chunks.
inline std::string webp_file(const std::string& chunks) {
  return riff_chunk("RIFF", "WEBP" + chunks);
}
// Returns the chunk that begins an extended WebP file. flags: 8 EXIF, 2 animated.
inline std::string vp8x_chunk(int flags, int64_t height, int64_t width) {
  return riff_chunk("VP8X", number_text(flags, 4, true) + number_text(width - 1, 3, true) +
                                number_text(height - 1, 3, true));
}
// Returns a simple WebP file of height x width pixels with an EXIF chunk.
inline std::string webp_with_exif(const std::string& file, const std::string& exif, int64_t height,
                                  int64_t width) {
  return webp_file(vp8x_chunk(8, height, width) + file.substr(12) + riff_chunk("EXIF", exif));
}

}  // namespace bv::test
