#include "lib/report/page/png.h"

#include <spng.h>

#include <cstdlib>
#include <memory>

namespace bv {
namespace {

constexpr int64_t kLargestSide = 4096;

struct FreeContext {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};
struct FreeBuffer {
  void operator()(void* buffer) const { std::free(buffer); }
};

int color_type(int64_t channels) {
  if (channels == 1) return SPNG_COLOR_TYPE_GRAYSCALE;
  if (channels == 3) return SPNG_COLOR_TYPE_TRUECOLOR;
  if (channels == 4) return SPNG_COLOR_TYPE_TRUECOLOR_ALPHA;
  return -1;
}

}  // namespace

std::string base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto byte = [&](size_t i) -> uint32_t {
    return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0;
  };
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const uint32_t word = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    for (size_t digit = 0; digit < 4; ++digit) {
      out += i + digit <= bytes.size() ? kDigits[word >> (18 - 6 * digit) & 63] : '=';
    }
  }
  return out;
}

std::string png_data_uri(const std::vector<uint8_t>& pixels, int64_t height, int64_t width,
                         int64_t channels) {
  if (height < 1 || width < 1 || height > kLargestSide || width > kLargestSide) return "";
  if (color_type(channels) < 0) return "";
  if (pixels.size() != static_cast<size_t>(height * width * channels)) return "";
  const std::unique_ptr<spng_ctx, FreeContext> context(spng_ctx_new(SPNG_CTX_ENCODER));
  spng_ihdr header{};
  header.width = static_cast<uint32_t>(width);
  header.height = static_cast<uint32_t>(height);
  header.bit_depth = 8;
  header.color_type = static_cast<uint8_t>(color_type(channels));
  if (!context || spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1) != 0 ||
      spng_set_ihdr(context.get(), &header) != 0 ||
      spng_encode_image(context.get(), pixels.data(), pixels.size(), SPNG_FMT_PNG,
                        SPNG_ENCODE_FINALIZE) != 0) {
    return "";
  }
  size_t size = 0;
  int error = 0;
  const std::unique_ptr<void, FreeBuffer> png(spng_get_png_buffer(context.get(), &size, &error));
  if (!png || error != 0) return "";
  return "data:image/png;base64," + base64({static_cast<const char*>(png.get()), size});
}

}  // namespace bv
