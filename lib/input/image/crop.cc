#include "lib/input/image/crop.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace bv {
namespace {

// Makes one attempt. Follows GenerateRandomCrop in TensorFlow's
// sample_distorted_bounding_box_op.cc. nearbyint() rounds halves to even, like its lrintf().
bool try_window(int64_t height, int64_t width, const CropRange& range, Rng& rng, Window& window) {
  const double aspect = rng.uniform(range.aspect_min, range.aspect_max);
  const double area = static_cast<double>(height) * static_cast<double>(width);
  const double smallest = range.area_min * area;
  const double largest = range.area_max * area;
  const auto round = [](double x) { return static_cast<int64_t>(std::nearbyint(x)); };
  const auto width_at = [&](int64_t h) { return round(static_cast<double>(h) * aspect); };

  int64_t highest = round(std::sqrt(largest / aspect));
  if (width_at(highest) > width) {
    highest = static_cast<int64_t>((static_cast<double>(width) + 0.5 - 1e-7) / aspect);
  }
  highest = std::min(highest, height);
  const int64_t lowest = std::min(round(std::sqrt(smallest / aspect)), highest);

  int64_t h = lowest + rng.below(highest - lowest + 1);
  int64_t w = width_at(h);
  const auto window_area = [&] { return static_cast<double>(h) * static_cast<double>(w); };
  if (window_area() < smallest) w = width_at(++h);
  if (window_area() > largest) w = width_at(--h);
  if (window_area() < smallest || window_area() > largest) return false;
  if (w > width || h > height || w < 1 || h < 1) return false;

  // The last possible offset is never drawn: TensorFlow's range excludes its end.
  window.y = h < height ? rng.below(height - h) : 0;
  window.x = w < width ? rng.below(width - w) : 0;
  window.height = h;
  window.width = w;
  return true;
}

}  // namespace

Window sample_crop_window(int64_t height, int64_t width, const CropRange& range, Rng& rng) {
  constexpr int kAttempts = 100;
  Window window;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (try_window(height, width, range, rng, window)) return window;
  }
  return {0, 0, height, width};
}

void copy_window(const uint8_t* image, int64_t row_bytes, int64_t pixel_bytes, const Window& window,
                 uint8_t* out) {
  const int64_t bytes = window.width * pixel_bytes;
  const uint8_t* from = image + window.y * row_bytes + window.x * pixel_bytes;
  for (int64_t y = 0; y < window.height; ++y) {
    std::memcpy(out + y * bytes, from + y * row_bytes, bytes);
  }
}

}  // namespace bv
