#include "lib/input/image/decoding.h"

#include <fmt/format.h>
#include <spng.h>
#include <webp/decode.h>

#include "lib/input/image/decode.h"
#include "lib/input/image/jpeg_codec.h"
#include "lib/input/image/orientation.h"

namespace bv {

std::string Decoding::text() const {
  return fmt::format("{} channels, precise {}, exif {}", channels, precise, exif);
}

at::Tensor decode_image(std::span<const uint8_t> bytes, const Decoding& how) {
  const at::Tensor image = decode_image(bytes, how.channels, how.precise);
  return how.exif ? turn_upright(image, exif_orientation(bytes)) : image;
}

std::string decoder_versions() {
  return fmt::format("libjpeg-turbo {}, libspng {}, libwebp {}", LIBJPEG_TURBO_VERSION_NUMBER,
                     spng_version_string(), WebPGetDecoderVersion());
}

}  // namespace bv
