// Image files of any supported format to (height, width, channels) uint8 tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace bv {

// Returns whether `bytes` has `text`, a file format's mark, at `offset`.
bool has_bytes_at(std::span<const uint8_t> bytes, size_t offset, std::string_view text);
// Returns the format that the first bytes of a file show: "JPEG", "PNG", "GIF", "WebP", "BMP",
// "TIFF", "HEIC", "HEIF", "AVIF", or "" if unknown.
std::string image_format(std::span<const uint8_t> bytes);
// Returns one line that says why a file that is not a JPEG, PNG or WebP can't be decoded.
std::string not_an_image(std::span<const uint8_t> bytes);

// Decodes a JPEG, PNG or WebP file; the first bytes tell which. See decode_jpeg(), decode_png() and
// decode_webp(). Ignores the EXIF orientation (orientation.h). Throws Error(Exit::data) without a
// place.
at::Tensor decode_image(std::span<const uint8_t> bytes, int channels, bool precise);

}  // namespace bv
