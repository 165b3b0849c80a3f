// How an op decodes image files, and decoding in that way.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>

namespace bv {

struct Decoding {
  std::string key = "image";  // the feature that holds the file
  int channels = 3;           // 1 or 3
  bool precise = false;       // see decode_jpeg()
  bool exif = false;          // whether the image is turned upright (image/orientation.h)

  // Returns a string that differs for decodings with different results.
  std::string text() const;
};

// Decodes a JPEG, PNG or WebP file to (height, width, channels) uint8. Throws Error(Exit::data)
// without a place.
at::Tensor decode_image(std::span<const uint8_t> bytes, const Decoding& how);

// Returns the versions of the decoding libraries, on which the pixels may depend.
std::string decoder_versions();

}  // namespace bv
