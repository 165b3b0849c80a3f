// The weights of Resizer. They follow TensorFlow 2's kernels resize_bilinear, resize_bicubic,
// resize_area, resize_nearest_neighbor (with half_pixel_centers) and scale_and_translate, including
// their rounding.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "lib/input/image/resizer.h"

namespace bv {
namespace {

float ratio(int64_t in, int64_t out) { return static_cast<float>(in) / static_cast<float>(out); }

// Returns the position of output j among the input's pixels, whose centres are at 0, 1, ...
float centre(int64_t j, float scale) { return (static_cast<float>(j) + 0.5f) * scale - 0.5f; }

// The kernel of R. Keys, "Cubic convolution interpolation for digital image processing", 1981, with
// a = -0.5, at distance x >= 0.
template <class F>
F keys_cubic(F x) {
  if (x >= 2) return 0;
  if (x >= 1) return ((F(-0.5) * x + F(2.5)) * x - 4) * x + 2;
  return ((F(1.5) * x - F(2.5)) * x) * x + 1;
}

// The kernel of D. Mitchell and A. Netravali, "Reconstruction filters in computer graphics", 1988,
// with B = C = 1/3.
float mitchell_cubic(float x) {
  if (x >= 2) return 0;
  if (x >= 1) return (((-7.0f / 18) * x + 2) * x - 10.0f / 3) * x + 16.0f / 9;
  return (((7.0f / 6) * x - 2) * x) * x + 8.0f / 9;
}

float lanczos(float x, float radius) {
  constexpr float kPi = std::numbers::pi_v<float>;
  if (x > radius) return 0;
  if (x <= 1e-3f) return 1;
  return radius * std::sin(kPi * x) * std::sin(kPi * x / radius) / (kPi * kPi * x * x);
}

float gaussian(float x) {
  constexpr double kSigma = 0.5;
  return x >= 1.5f ? 0 : static_cast<float>(std::exp(-x * x / (2 * kSigma * kSigma)));
}

float triangle(float x) { return x < 1 ? 1 - x : 0; }

float kernel_radius(ResizeMethod method) {
  switch (method) {
    case ResizeMethod::bilinear:
      return 1;
    case ResizeMethod::lanczos3:
      return 3;
    case ResizeMethod::lanczos5:
      return 5;
    case ResizeMethod::gaussian:
      return 1.5f;
    default:
      return 2;  // the cubic kernels
  }
}

float kernel_value(ResizeMethod method, float x) {
  switch (method) {
    case ResizeMethod::bilinear:
      return triangle(x);
    case ResizeMethod::lanczos3:
      return lanczos(x, 3);
    case ResizeMethod::lanczos5:
      return lanczos(x, 5);
    case ResizeMethod::gaussian:
      return gaussian(x);
    case ResizeMethod::mitchellcubic:
      return mitchell_cubic(x);
    default:
      return keys_cubic(x);
  }
}

// Divides the weights by their sum, unless the sum is practically 0.
void normalise(float* weight, int32_t count) {
  float sum = 0;
  for (int32_t k = 0; k < count; ++k) sum += weight[k];
  if (std::abs(sum) < 1000 * std::numeric_limits<float>::min()) return;
  const float factor = 1 / sum;
  for (int32_t k = 0; k < count; ++k) weight[k] *= factor;
}

}  // namespace

std::vector<int32_t> Resizer::nearest_indices(int64_t in, int64_t out) {
  const float scale = ratio(in, out);
  std::vector<int32_t> index(out);
  for (int64_t j = 0; j < out; ++j) {
    const float position = std::floor((static_cast<float>(j) + 0.5f) * scale);
    index[j] = static_cast<int32_t>(std::min(static_cast<int64_t>(position), in - 1));
  }
  return index;
}

Resizer::Lerps Resizer::lerps(int64_t in, int64_t out) {
  const float scale = ratio(in, out);
  Lerps made;
  for (int64_t j = 0; j < out; ++j) {
    const float position = centre(j, scale);
    const float floor = std::floor(position);
    const auto lower = static_cast<int64_t>(floor);
    const auto upper = static_cast<int64_t>(std::ceil(position));
    made.lower.push_back(static_cast<int32_t>(std::clamp<int64_t>(lower, 0, in - 1)));
    made.upper.push_back(static_cast<int32_t>(std::clamp<int64_t>(upper, 0, in - 1)));
    made.part.push_back(position - floor);
  }
  return made;
}

// Rounding may extend the last window past the input, with a tiny weight. The extra index `in` then
// means the last pixel once more (widen() repeats it).
Resizer::Taps Resizer::area_taps(int64_t in, int64_t out) {
  const float scale = ratio(in, out);
  Taps taps;
  taps.span = static_cast<int32_t>(std::ceil(scale)) + 2;
  taps.weight.resize(out * taps.span);
  for (int64_t j = 0; j < out; ++j) {
    const float begin = static_cast<float>(j) * scale;
    const float end = static_cast<float>(j + 1) * scale;
    const auto first = static_cast<int64_t>(std::floor(begin));
    const auto last = static_cast<int64_t>(std::ceil(end));
    taps.start.push_back(static_cast<int32_t>(first));
    taps.count.push_back(static_cast<int32_t>(last - first));
    for (int64_t i = first; i < last; ++i) {
      const float left = static_cast<float>(i);
      const float right = static_cast<float>(i + 1);
      float weight = 1;
      if (left < begin) {
        weight = right > end ? scale : right - begin;
      } else if (right > end) {
        weight = end - left;
      }
      taps.weight[j * taps.span + (i - first)] = weight;
    }
  }
  return taps;
}

// Like TensorFlow's table of coefficients: the offset is rounded to 1/1024 and the cubic is
// computed in double.
Resizer::Taps Resizer::bicubic_taps(int64_t in, int64_t out) {
  constexpr int64_t kSteps = 1024;
  const float scale = ratio(in, out);
  Taps taps;
  taps.span = 4;
  taps.weight.resize(out * taps.span);
  for (int64_t j = 0; j < out; ++j) {
    const float position = centre(j, scale);
    const float floor = std::floor(position);
    const auto step = std::lrint((position - floor) * kSteps);
    const double near = static_cast<double>(step) / kSteps;
    const double far = 1 - near;
    const std::array<double, 4> distance = {1 + near, near, far, 1 + far};
    const auto first = static_cast<int64_t>(floor) - 1;
    const int64_t begin = std::max<int64_t>(first, 0);
    const int64_t end = std::min<int64_t>(first + 4, in);
    float* weight = &taps.weight[j * taps.span];
    for (int64_t i = begin; i < end; ++i) {
      weight[i - begin] = static_cast<float>(keys_cubic(distance[i - first]));
    }
    normalise(weight, static_cast<int32_t>(end - begin));
    taps.start.push_back(static_cast<int32_t>(begin));
    taps.count.push_back(static_cast<int32_t>(end - begin));
  }
  return taps;
}

Resizer::Taps Resizer::kernel_taps(ResizeMethod method, bool antialias, int64_t in, int64_t out) {
  const auto scale = static_cast<float>(1.0 / ratio(out, in));
  const float stretch = antialias ? std::max(scale, 1.0f) : 1.0f;
  const float radius = kernel_radius(method) * stretch;
  const float shrink = 1 / stretch;
  Taps taps;
  taps.span =
      static_cast<int32_t>(std::min<int64_t>(2 * static_cast<int64_t>(std::ceil(radius)) + 1, in));
  taps.weight.resize(out * taps.span);
  for (int64_t j = 0; j < out; ++j) {
    const float position = (static_cast<float>(j) + 0.5f) * scale;
    const auto lowest = static_cast<int64_t>(std::ceil(position - radius - 0.5f));
    const auto highest = static_cast<int64_t>(std::floor(position + radius - 0.5f));
    const int64_t begin = std::clamp<int64_t>(lowest, 0, in - 1);
    const int64_t end = std::min(std::clamp<int64_t>(highest, 0, in - 1) + 1, begin + taps.span);
    float* weight = &taps.weight[j * taps.span];
    for (int64_t i = begin; i < end; ++i) {
      const float distance = static_cast<float>(i) + 0.5f - position;
      weight[i - begin] = kernel_value(method, std::abs(distance * shrink));
    }
    normalise(weight, static_cast<int32_t>(end - begin));
    taps.start.push_back(static_cast<int32_t>(begin));
    taps.count.push_back(static_cast<int32_t>(end - begin));
  }
  return taps;
}

}  // namespace bv
