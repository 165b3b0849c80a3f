#include "lib/input/image/rand_augment.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "lib/device/cpu_dispatch.h"

namespace bv {
namespace {

constexpr uint8_t kFill = 128;

// Output pixel (x, y) shows the input at (xx x + xy y + x0, yx x + yy y + y0). Computed in float32
// and in this order of operations, like TensorFlow's ImageProjectiveTransform.
struct Transform {
  float xx = 1, xy = 0, x0 = 0;
  float yx = 0, yy = 1, y0 = 0;
};

// Returns the integer nearest to `position` (halves away from zero), or -1 if it is not in [0, n).
[[gnu::always_inline]] inline int32_t nearest_index(float position, float n) {
  const bool inside = position > -0.5f && position < n - 0.5f;
  const float at = inside && position > 0.0f ? position : 0.0f;
  const auto whole = static_cast<int32_t>(at);
  const int32_t up = at - static_cast<float>(whole) >= 0.5f ? 1 : 0;
  return inside ? whole + up : -1;
}

// Transforms the image in place: each output pixel is the nearest input pixel, or kFill if that is
// outside the image.
void transform(const RgbImage& image, const Transform& t) {
  const int64_t height = image.height, width = image.width;
  const std::vector<uint8_t> in(image.pixels, image.pixels + image.count() * 3);
  std::vector<int32_t> source(width);  // for one row: the pixel's number in `in`, or -1
  for (int64_t y = 0; y < height; ++y) {
    int32_t* __restrict number = source.data();
    run_simd([&]() __attribute__((always_inline)) {
      const float x_row = t.xy * static_cast<float>(y);
      const float y_row = t.yy * static_cast<float>(y);
      for (int32_t x = 0; x < static_cast<int32_t>(width); ++x) {
        const auto column = static_cast<float>(x);
        const int32_t ix = nearest_index(t.xx * column + x_row + t.x0, static_cast<float>(width));
        const int32_t iy = nearest_index(t.yx * column + y_row + t.y0, static_cast<float>(height));
        number[x] = ix < 0 || iy < 0 ? -1 : iy * static_cast<int32_t>(width) + ix;
      }
    });
    uint8_t* out = image.pixels + y * width * 3;
    for (int64_t x = 0; x < width; ++x, out += 3) {
      if (number[x] < 0) {
        std::memset(out, kFill, 3);
      } else {
        std::memcpy(out, in.data() + int64_t{number[x]} * 3, 3);
      }
    }
  }
}

// A rotation about the image's centre. Computed in float32, like tfa.image.rotate.
Transform rotation(const RgbImage& image, float degrees) {
  const float angle = degrees * static_cast<float>(std::numbers::pi / 180);
  const float c = std::cos(angle), s = std::sin(angle);
  const auto right = static_cast<float>(image.width - 1);
  const auto bottom = static_cast<float>(image.height - 1);
  return {.xx = c,
          .xy = -s,
          .x0 = (right - (c * right - s * bottom)) / 2,
          .yx = s,
          .yy = c,
          .y0 = (bottom - (s * right + c * bottom)) / 2};
}

// Fills the part of a square of side 2 * half around (y, x) that is inside the image.
void cut_out(const RgbImage& image, int64_t half, int64_t y, int64_t x) {
  const int64_t top = std::max<int64_t>(0, y - half), bottom = std::min(image.height, y + half);
  const int64_t left = std::max<int64_t>(0, x - half), right = std::min(image.width, x + half);
  for (int64_t row = top; row < bottom; ++row) {
    std::memset(image.pixels + (row * image.width + left) * 3, kFill, (right - left) * 3);
  }
}

bool has_sign(Augmentation op) {
  return op == Augmentation::rotate || op == Augmentation::shear_x || op == Augmentation::shear_y ||
         op == Augmentation::translate_x || op == Augmentation::translate_y;
}

}  // namespace

AugmentationDraw draw_augmentation(int64_t height, int64_t width, Rng& rng) {
  AugmentationDraw draw;
  draw.op = static_cast<Augmentation>(rng.below(std::ssize(kAugmentationNames)));
  if (has_sign(draw.op)) draw.negative = rng.uniform() < 0.5;
  if (draw.op == Augmentation::cutout) {
    draw.y = rng.below(height);
    draw.x = rng.below(width);
  }
  return draw;
}

void augment(const RgbImage& image, const AugmentationDraw& draw, double magnitude) {
  const double part = magnitude / 10;
  const auto whole = [&](int most) { return static_cast<int64_t>(part * most); };
  const auto size = [&](double most) {  // with the drawn sign
    const auto value = static_cast<float>(part * most);
    return draw.negative ? -value : value;
  };
  const auto factor = static_cast<float>(part * 1.8 + 0.1);
  switch (draw.op) {
    case Augmentation::auto_contrast:
      return auto_contrast(image);
    case Augmentation::equalize:
      return equalize(image);
    case Augmentation::invert:
      return invert(image);
    case Augmentation::rotate:
      return transform(image, rotation(image, size(30)));
    case Augmentation::posterize:
      return posterize(image, whole(4));
    case Augmentation::solarize:
      return solarize(image, whole(256));
    case Augmentation::color:
      return blend_with_grey(image, factor);
    case Augmentation::contrast:
      return blend_with_constant(image, factor);
    case Augmentation::brightness:
      return blend_with_black(image, factor);
    case Augmentation::sharpness:
      return blend_with_smoothed(image, factor);
    case Augmentation::shear_x:
      return transform(image, {.xy = size(0.3)});
    case Augmentation::shear_y:
      return transform(image, {.yx = size(0.3)});
    case Augmentation::translate_x:
      return transform(image, {.x0 = size(100)});
    case Augmentation::translate_y:
      return transform(image, {.y0 = size(100)});
    case Augmentation::cutout:
      return cut_out(image, whole(40), draw.y, draw.x);
    case Augmentation::solarize_add:
      return solarize_add(image, whole(110));
  }
}

}  // namespace bv
