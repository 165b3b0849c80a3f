#include "lib/report/picture.h"

#include <spng.h>

#include <algorithm>
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

// Returns the mean of one channel over the pixels [top, bottom) x [left, right).
uint8_t mean_of(const Picture& from, int64_t top, int64_t bottom, int64_t left, int64_t right,
                int64_t channel) {
  const int64_t count = (bottom - top) * (right - left);
  int64_t sum = 0;
  for (int64_t y = top; y < bottom; ++y) {
    for (int64_t x = left; x < right; ++x)
      sum += from.pixels[static_cast<size_t>((y * from.width + x) * from.channels + channel)];
  }
  return static_cast<uint8_t>((sum + count / 2) / count);
}

}  // namespace

Picture shrunk(const Picture& from, int64_t most_side) {
  const int64_t longest = std::max(from.height, from.width);
  const int64_t factor = std::max<int64_t>(1, (longest + most_side - 1) / most_side);
  if (factor == 1) return from;
  Picture to{
      (from.height + factor - 1) / factor, (from.width + factor - 1) / factor, from.channels, {}};
  to.pixels.reserve(static_cast<size_t>(to.height * to.width * to.channels));
  for (int64_t y = 0; y < to.height; ++y) {
    for (int64_t x = 0; x < to.width; ++x) {
      for (int64_t c = 0; c < from.channels; ++c) {
        to.pixels.push_back(mean_of(from, y * factor, std::min((y + 1) * factor, from.height),
                                    x * factor, std::min((x + 1) * factor, from.width), c));
      }
    }
  }
  return to;
}

Picture tiled(const std::vector<Picture>& pictures, int64_t columns) {
  if (pictures.empty()) return {};
  const Picture& first = pictures.front();
  const auto count = static_cast<int64_t>(pictures.size());
  columns = std::min(columns, count);
  const int64_t rows = (count + columns - 1) / columns;
  Picture all{rows * (first.height + 1) - 1, columns * (first.width + 1) - 1, first.channels, {}};
  all.pixels.assign(static_cast<size_t>(all.height * all.width * all.channels), 255);
  const auto bytes = static_cast<size_t>(first.width * first.channels);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t top = i / columns * (first.height + 1), left = i % columns * (first.width + 1);
    for (int64_t y = 0; y < first.height; ++y) {
      const auto from =
          pictures[static_cast<size_t>(i)].pixels.begin() + static_cast<int64_t>(bytes) * y;
      std::copy_n(from, bytes, all.pixels.begin() + ((top + y) * all.width + left) * all.channels);
    }
  }
  return all;
}

std::string encode_png(const Picture& picture) {
  const auto& [height, width, channels, pixels] = picture;
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
  return {static_cast<const char*>(png.get()), size};
}

}  // namespace bv
