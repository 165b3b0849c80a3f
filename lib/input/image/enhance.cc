#include "lib/input/image/enhance.h"

#include <algorithm>
#include <array>
#include <vector>

#include "lib/device/cpu_dispatch.h"

namespace bv {
namespace {

constexpr int64_t kChannels = 3;

using Table = std::array<uint8_t, 256>;

void apply_tables(const RgbImage& image, const std::array<Table, kChannels>& tables) {
  uint8_t* pixel = image.pixels;
  for (int64_t i = 0; i < image.count(); ++i, pixel += kChannels) {
    for (int64_t c = 0; c < kChannels; ++c) pixel[c] = tables[c][pixel[c]];
  }
}

// Replaces every value v by result(v).
template <class Result>
void map_values(const RgbImage& image, const Result& result) {
  Table table;
  for (int v = 0; v < 256; ++v) table[v] = result(v);
  for (int64_t i = 0; i < image.count() * kChannels; ++i) image.pixels[i] = table[image.pixels[i]];
}

// Returns d + factor * (x - d), clipped and truncated: in float32, in this order.
[[gnu::always_inline]] inline uint8_t blend(float d, float x, float factor) {
  float value = d + factor * (x - d);
  value = value < 0.0f ? 0.0f : value;
  value = value > 255.0f ? 255.0f : value;
  return static_cast<uint8_t>(static_cast<int32_t>(value));
}

// tf.image.rgb_to_grayscale for uint8: computes with floats in 0..1 and truncates.
[[gnu::always_inline]] inline uint8_t grey(const uint8_t* pixel) {
  constexpr float kScale = 1.0f / 255.0f;
  const float sum = static_cast<float>(pixel[0]) * kScale * 0.2989f +
                    static_cast<float>(pixel[1]) * kScale * 0.587f +
                    static_cast<float>(pixel[2]) * kScale * 0.114f;
  return static_cast<uint8_t>(static_cast<int32_t>(sum * 255.5f));
}

using Histogram = std::array<int64_t, 256>;

std::array<Histogram, kChannels> histograms(const RgbImage& image) {
  std::array<Histogram, kChannels> counts{};
  const uint8_t* pixel = image.pixels;
  for (int64_t i = 0; i < image.count(); ++i, pixel += kChannels) {
    for (int64_t c = 0; c < kChannels; ++c) ++counts[c][pixel[c]];
  }
  return counts;
}

Table unchanged() {
  Table table;
  for (int v = 0; v < 256; ++v) table[v] = static_cast<uint8_t>(v);
  return table;
}

// The table of auto_contrast() for one channel.
Table stretching(const Histogram& counts) {
  int low = 0, high = 255;
  while (low < 255 && counts[low] == 0) ++low;
  while (high > 0 && counts[high] == 0) --high;
  if (high <= low) return unchanged();
  const float scale = 255.0f / static_cast<float>(high - low);
  const float offset = -static_cast<float>(low) * scale;
  Table table;
  for (int v = 0; v < 256; ++v) {
    const float value = static_cast<float>(v) * scale + offset;
    table[v] = static_cast<uint8_t>(static_cast<int32_t>(std::clamp(value, 0.0f, 255.0f)));
  }
  return table;
}

// The table of equalize() for one channel.
Table flattening(const Histogram& counts) {
  int64_t sum = 0, last = 0;
  for (const int64_t count : counts) {
    sum += count;
    if (count > 0) last = count;
  }
  const int64_t step = (sum - last) / 255;
  if (step == 0) return unchanged();
  Table table;
  int64_t below = 0;  // number of pixels with smaller values
  for (int v = 0; v < 256; ++v) {
    const int64_t value = v == 0 ? 0 : (below + step / 2) / step;
    table[v] = static_cast<uint8_t>(std::min<int64_t>(value, 255));
    below += counts[v];
  }
  return table;
}

// Computes one row of the image smoothed by [[1 1 1] [1 5 1] [1 1 1]] / 13, except for its first
// and last pixel. TensorFlow's convolution adds the taps row by row with fused multiply-adds. Here,
// products and sums in double are exact (8-bit values times float32 weights), and each sum is
// rounded to float32 once, which is bit-identical.
[[gnu::always_inline]] inline void smoothed_row(const double* __restrict above,
                                                const double* __restrict row,
                                                const double* __restrict below, int64_t n,
                                                float* __restrict out) {
  constexpr double kSide = 1.0f / 13.0f;
  constexpr double kMiddle = 5.0f / 13.0f;
  const auto add = [](float sum, double value, double weight) __attribute__((always_inline)) {
    return static_cast<float>(static_cast<double>(sum) + value * weight);
  };
  for (int64_t i = kChannels; i < n - kChannels; ++i) {
    float sum = add(0.0f, above[i - kChannels], kSide);
    sum = add(sum, above[i], kSide);
    sum = add(sum, above[i + kChannels], kSide);
    sum = add(sum, row[i - kChannels], kSide);
    sum = add(sum, row[i], kMiddle);
    sum = add(sum, row[i + kChannels], kSide);
    sum = add(sum, below[i - kChannels], kSide);
    sum = add(sum, below[i], kSide);
    out[i] = add(sum, below[i + kChannels], kSide);
  }
}

// Blends each x[i] with d[i], truncated to an integer. d[i] is in 0..255 up to a rounding error.
[[gnu::always_inline]] inline void blend_values(const float* __restrict d, int64_t n, float factor,
                                                uint8_t* __restrict x) {
  for (int64_t i = 0; i < n; ++i) {
    x[i] = blend(static_cast<float>(static_cast<int32_t>(d[i])), static_cast<float>(x[i]), factor);
  }
}

}  // namespace

void auto_contrast(const RgbImage& image) {
  const auto counts = histograms(image);
  apply_tables(image, {stretching(counts[0]), stretching(counts[1]), stretching(counts[2])});
}

void equalize(const RgbImage& image) {
  const auto counts = histograms(image);
  apply_tables(image, {flattening(counts[0]), flattening(counts[1]), flattening(counts[2])});
}

void invert(const RgbImage& image) {
  map_values(image, [](int v) { return static_cast<uint8_t>(255 - v); });
}

void posterize(const RgbImage& image, int64_t bits) {
  const int shift = std::min<int>(static_cast<uint8_t>(8 - bits), 7);
  map_values(image, [=](int v) { return static_cast<uint8_t>(v >> shift << shift); });
}

void solarize(const RgbImage& image, int64_t threshold) {
  const int wrapped = static_cast<uint8_t>(threshold);
  map_values(image, [=](int v) { return static_cast<uint8_t>(v < wrapped ? v : 255 - v); });
}

void solarize_add(const RgbImage& image, int64_t addition) {
  map_values(image, [=](int v) {
    return static_cast<uint8_t>(v < 128 ? std::clamp<int64_t>(v + addition, 0, 255) : v);
  });
}

void blend_with_grey(const RgbImage& image, float factor) {
  const int64_t n = image.width * kChannels;
  std::vector<float> greys(n);
  run_simd([&]() __attribute__((always_inline)) {
    for (int64_t y = 0; y < image.height; ++y) {
      uint8_t* row = image.pixels + y * n;
      for (int64_t i = 0; i < n; i += kChannels) {
        greys[i] = greys[i + 1] = greys[i + 2] = static_cast<float>(grey(row + i));
      }
      blend_values(greys.data(), n, factor, row);
    }
  });
}

void blend_with_black(const RgbImage& image, float factor) {
  map_values(image, [=](int v) { return blend(0.0f, static_cast<float>(v), factor); });
}

// The constant is meant to be the mean grey value, but big_vision's `contrast` divides the sum of
// the histogram, which is the number of pixels, by 256.
void blend_with_constant(const RgbImage& image, float factor) {
  const auto d = static_cast<float>(std::min<int64_t>(image.count() / 256, 255));
  map_values(image, [=](int v) { return blend(d, static_cast<float>(v), factor); });
}

void blend_with_smoothed(const RgbImage& image, float factor) {
  if (image.height < 3 || image.width < 3) return;  // all pixels are border, which is kept
  const int64_t n = image.width * kChannels;
  std::vector<double> rows(3 * n);  // the last three input rows, by y % 3
  std::vector<float> smoothed(n);
  const auto widened = [&](int64_t y) __attribute__((always_inline)) { return &rows[y % 3 * n]; };
  run_simd([&]() __attribute__((always_inline)) {
    for (int64_t y = 0; y < image.height; ++y) {
      double* __restrict wide = widened(y);
      const uint8_t* __restrict in = image.pixels + y * n;
      for (int64_t i = 0; i < n; ++i) wide[i] = in[i];
      if (y < 2) continue;
      smoothed_row(widened(y - 2), widened(y - 1), wide, n, smoothed.data());
      blend_values(smoothed.data() + kChannels, n - 2 * kChannels, factor,
                   image.pixels + (y - 1) * n + kChannels);
    }
  });
}

}  // namespace bv
