#include "lib/input/image/webp.h"

#include <ATen/ops/empty.h>
#include <webp/decode.h>

#include <string>

#include "lib/input/image/geometry.h"
#include "lib/input/image/luma.h"
#include "lib/input/image/pixel_limit.h"
#include "lib/util/error.h"

namespace bv {
namespace {

const char* reason(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      return "its data end too early";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "it uses an unsupported feature";
    case VP8_STATUS_OUT_OF_MEMORY:
      return "no memory to decode it";
    default:
      return "its data are damaged";
  }
}

void check_webp(VP8StatusCode status) {
  if (status != VP8_STATUS_OK)
    throw Error::bare(Exit::data, fmt::format("broken WebP: {}", reason(status)));
}

// The header contains the file length. libwebp would decode a shorter file as far as possible.
void check_complete(std::span<const uint8_t> bytes) {
  const uint64_t rest =
      bytes[4] | uint64_t{bytes[5]} << 8 | uint64_t{bytes[6]} << 16 | uint64_t{bytes[7]} << 24;
  if (rest + 8 > bytes.size())
    throw Error::bare(Exit::data, fmt::format("truncated WebP at byte {}", bytes.size()));
}

}  // namespace

at::Tensor decode_webp(std::span<const uint8_t> bytes, int channels) {
  check(channels == 0 || channels == 1 || channels == 3, "decode_webp to {} channels", channels);
  check(bytes.size() >= 12, "a WebP file of {} bytes", bytes.size());
  check_complete(bytes);
  WebPDecoderConfig config;
  check(WebPInitDecoderConfig(&config), "libwebp is not the version of its header");
  check_webp(WebPGetFeatures(bytes.data(), bytes.size(), &config.input));
  if (config.input.has_animation) throw Error::bare(Exit::data, std::string(kAnimatedWebp));
  const int64_t height = config.input.height, width = config.input.width;
  check_decoded_size(height, width);
  at::Tensor rgb = at::empty({height, width, 3}, at::kByte);
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {rgb.mutable_data_ptr<uint8_t>(), static_cast<int>(3 * width),
                          static_cast<size_t>(rgb.numel())};
  check_webp(WebPDecode(bytes.data(), bytes.size(), &config));
  if (channels != 1) return rgb;
  at::Tensor image = at::empty({height, width, 1}, at::kByte);
  const uint8_t* from = rgb.const_data_ptr<uint8_t>();
  uint8_t* to = image.mutable_data_ptr<uint8_t>();
  for (int64_t i = 0; i < height * width; ++i) to[i] = luma(from + 3 * i);
  return image;
}

}  // namespace bv
