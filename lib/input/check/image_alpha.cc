#include "lib/input/check/image_alpha.h"

#include <webp/decode.h>

#include <cstring>
#include <string>

#include "lib/input/image/decode.h"

namespace bv {
namespace {

bool png_has_alpha(std::span<const uint8_t> bytes) {
  constexpr size_t kSignature = 8, kAroundData = 12;  // a chunk's length, type and checksum
  constexpr size_t kColourType = 25;                  // 4: grey with alpha; 6: colour with alpha
  if (bytes.size() <= kColourType) return false;
  if ((bytes[kColourType] & 4) != 0) return true;
  for (size_t at = kSignature; bytes.size() - at >= kAroundData;) {
    const uint64_t length = uint64_t{bytes[at]} << 24 | uint64_t{bytes[at + 1]} << 16 |
                            uint64_t{bytes[at + 2]} << 8 | bytes[at + 3];
    const char* type = reinterpret_cast<const char*>(&bytes[at + 4]);
    if (std::memcmp(type, "tRNS", 4) == 0) return true;
    const bool pixels = std::memcmp(type, "IDAT", 4) == 0;  // tRNS comes before them
    if (pixels || bytes.size() - at - kAroundData < length) return false;
    at += kAroundData + length;
  }
  return false;
}

}  // namespace

bool has_alpha(std::span<const uint8_t> bytes) {
  const std::string format = image_format(bytes);
  if (format == "PNG") return png_has_alpha(bytes);
  WebPBitstreamFeatures features;
  return format == "WebP" &&
         WebPGetFeatures(bytes.data(), bytes.size(), &features) == VP8_STATUS_OK &&
         features.has_alpha != 0;
}

}  // namespace bv
