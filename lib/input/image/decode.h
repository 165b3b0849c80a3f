// Any supported image file to an HWC uint8 tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>

namespace bv {

// "JPEG", "PNG", or what else the first bytes show ("GIF", "WebP", "BMP", "TIFF"); "" = unknown.
std::string image_format(std::span<const uint8_t> bytes);
// Whether these first bytes are the text that git-LFS leaves in a file's place.
bool is_lfs_pointer(std::span<const uint8_t> bytes);
// One line on why bytes that are neither JPEG nor PNG are no image for us.
std::string not_an_image(std::span<const uint8_t> bytes);

// JPEG or PNG by its first bytes, whatever the file is called: see decode_jpeg(), decode_png().
// Throws Error(Exit::data) without a place.
at::Tensor decode_image(std::span<const uint8_t> bytes, int channels, bool precise);

}  // namespace bv
