#include "lib/input/image/pixel_limit.h"

#include <atomic>

#include "lib/input/image/geometry.h"
#include "lib/util/error.h"
#include "lib/util/limits.h"

namespace bv {
namespace {

// One per process, because images are decoded in many places, and they share its memory.
std::atomic<int64_t> g_max_pixels = limits::kImagePixels;

}  // namespace

void read_max_pixels(const Config& input) {
  const auto pixels = input.get<int64_t>("max_pixels", limits::kImagePixels);
  if (pixels < 1 || pixels > limits::kImagePixels) {
    input.problem("max_pixels",
                  fmt::format("must be within 1..{}, got {}", limits::kImagePixels, pixels));
    return;
  }
  g_max_pixels = pixels;
}

int64_t max_pixels() { return g_max_pixels; }

void check_decoded_size(int64_t height, int64_t width) {
  check_image_size(height, width);
  if (height * width > g_max_pixels) {
    throw Error::bare(Exit::data, fmt::format("image of {} x {} pixels: input.max_pixels allows {}",
                                              height, width, g_max_pixels.load()));
  }
}

}  // namespace bv
