#include "lib/input/image/png.h"

#include <ATen/ops/empty.h>
#include <spng.h>

#include <memory>

#include "lib/input/image/decode.h"
#include "lib/input/image/luma.h"
#include "lib/input/image/pixel_limit.h"
#include "lib/util/error.h"
#include "lib/util/limits.h"

namespace bv {
namespace {

void check_png(int code) {
  if (code) throw Error::bare(Exit::data, fmt::format("broken PNG: {}", spng_strerror(code)));
}

}  // namespace

at::Tensor decode_png(std::span<const uint8_t> bytes, int channels) {
  check(channels == 0 || channels == 1 || channels == 3, "decode_png to {} channels", channels);
  const std::unique_ptr<spng_ctx, decltype(&spng_ctx_free)> context(spng_ctx_new(0),
                                                                    &spng_ctx_free);
  check(context != nullptr, "no memory for a PNG decoder");
  check_png(spng_set_image_limits(context.get(), limits::kImageSide, limits::kImageSide));
  check_png(spng_set_chunk_limits(context.get(), limits::kPngChunkBytes, limits::kPngChunkBytes));
  // A damaged ancillary chunk (a comment) does not affect the pixels.
  check_png(spng_set_crc_action(context.get(), SPNG_CRC_ERROR, SPNG_CRC_DISCARD));
  check_png(spng_set_png_buffer(context.get(), bytes.data(), bytes.size()));
  spng_ihdr header;
  check_png(spng_get_ihdr(context.get(), &header));
  check_decoded_size(header.height, header.width);
  const bool grey = header.color_type == SPNG_COLOR_TYPE_GRAYSCALE ||
                    header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA;
  const int64_t height = header.height, width = header.width;
  at::Tensor rgb = at::empty({height, width, 3}, at::kByte);
  size_t needed = 0;
  check_png(spng_decoded_image_size(context.get(), SPNG_FMT_RGB8, &needed));
  check(needed == static_cast<size_t>(rgb.numel()), "PNG size {} is not {}", needed, rgb.numel());
  check_png(
      spng_decode_image(context.get(), rgb.mutable_data_ptr<uint8_t>(), needed, SPNG_FMT_RGB8, 0));
  if (channels == 3 || (channels == 0 && !grey)) return rgb;
  at::Tensor image = at::empty({height, width, 1}, at::kByte);
  const uint8_t* from = rgb.const_data_ptr<uint8_t>();
  uint8_t* to = image.mutable_data_ptr<uint8_t>();
  for (int64_t i = 0; i < height * width; ++i) to[i] = grey ? from[3 * i] : luma(from + 3 * i);
  return image;
}

bool is_png_of_16_bits(std::span<const uint8_t> bytes) {
  constexpr size_t kBitDepth = 24;  // in IHDR, which is always the first chunk
  return bytes.size() > kBitDepth && image_format(bytes) == "PNG" && bytes[kBitDepth] == 16;
}

}  // namespace bv
