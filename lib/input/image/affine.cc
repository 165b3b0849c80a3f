#include "lib/input/image/affine.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "lib/device/cpu_dispatch.h"

namespace bv {
namespace {

// Computes one output row. `padded` is the input as float inside a frame of the fill value: one
// pixel wide on the left and top, two on the right and bottom. A position that is clamped to the
// frame has all four of its neighbours inside it.
template <class T>
[[gnu::always_inline]] inline void affine_row(const float* __restrict padded, int64_t height,
                                              int64_t width, int64_t channels, const AffineMap& map,
                                              int64_t y, T* __restrict out) {
  const auto row = static_cast<int32_t>((width + 3) * channels);
  const auto step = static_cast<int32_t>(channels);
  const auto xx = static_cast<float>(map.xx);
  const auto yx = static_cast<float>(map.yx);
  // Positions are relative to the frame, so 1 is added.
  const auto left = static_cast<float>(map.xy * static_cast<double>(y) + map.x0 + 1);
  const auto top = static_cast<float>(map.yy * static_cast<double>(y) + map.y0 + 1);
  const auto right_end = static_cast<float>(width + 1);
  const auto bottom_end = static_cast<float>(height + 1);
  for (int32_t x = 0; x < static_cast<int32_t>(width); ++x) {
    float px = xx * static_cast<float>(x) + left;
    float py = yx * static_cast<float>(x) + top;
    px = px > 0.0f ? px : 0.0f;
    py = py > 0.0f ? py : 0.0f;
    px = px < right_end ? px : right_end;
    py = py < bottom_end ? py : bottom_end;
    const auto ix = static_cast<int32_t>(px);
    const auto iy = static_cast<int32_t>(py);
    const float fx = px - static_cast<float>(ix);
    const float fy = py - static_cast<float>(iy);
    const float* __restrict tap = padded + iy * row + ix * step;
    for (int32_t c = 0; c < step; ++c) {
      const float upper = tap[c] + (tap[c + step] - tap[c]) * fx;
      const float lower = tap[c + row] + (tap[c + row + step] - tap[c + row]) * fx;
      const float value = upper + (lower - upper) * fy;
      if constexpr (std::is_same_v<T, uint8_t>) {
        // Never negative.  NOLINTNEXTLINE(bugprone-incorrect-roundings)
        out[x * step + c] = static_cast<uint8_t>(static_cast<int32_t>(value + 0.5f));
      } else {
        out[x * step + c] = value;
      }
    }
  }
}

}  // namespace

bool affine_fits(int64_t height, int64_t width, int64_t channels) {
  int64_t numbers = 0;
  return !__builtin_mul_overflow((height + 3) * (width + 3), channels, &numbers) &&
         numbers <= std::numeric_limits<int32_t>::max();
}

template <class T>
void apply_affine(const T* in, int64_t height, int64_t width, int64_t channels,
                  const AffineMap& map, float fill, T* out) {
  const int64_t row = (width + 3) * channels;
  std::vector<float> padded((height + 3) * row, fill);
  run_simd([&]() __attribute__((always_inline)) {
    for (int64_t y = 0; y < height; ++y) {
      float* __restrict to = padded.data() + (y + 1) * row + channels;
      const T* __restrict from = in + y * width * channels;
      for (int64_t i = 0; i < width * channels; ++i) to[i] = static_cast<float>(from[i]);
    }
    for (int64_t y = 0; y < height; ++y) {
      T* to = out + y * width * channels;
      if (channels == 1) {
        affine_row<T>(padded.data(), height, width, 1, map, y, to);
      } else {
        affine_row<T>(padded.data(), height, width, channels, map, y, to);
      }
    }
  });
}

template void apply_affine(const uint8_t*, int64_t, int64_t, int64_t, const AffineMap&, float,
                           uint8_t*);
template void apply_affine(const float*, int64_t, int64_t, int64_t, const AffineMap&, float,
                           float*);

}  // namespace bv
