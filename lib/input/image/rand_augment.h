// RandAugment: E. Cubuk, B. Zoph, J. Shlens, Q. Le, "RandAugment: practical automated data
// augmentation with a reduced search space", 2019. The operations and constants are those of
// big_vision's pp/archive/randaug.py and pp/archive/autoaugment.py.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "lib/input/image/enhance.h"
#include "lib/util/rng.h"

namespace bv {

enum class Augmentation {
  auto_contrast,
  equalize,
  invert,
  rotate,
  posterize,
  solarize,
  color,
  contrast,
  brightness,
  sharpness,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  cutout,
  solarize_add
};
// The paper's names, in the order of the enum.
constexpr std::array<std::string_view, 16> kAugmentationNames = {
    "AutoContrast", "Equalize",   "Invert",     "Rotate",     "Posterize", "Solarize",
    "Color",        "Contrast",   "Brightness", "Sharpness",  "ShearX",    "ShearY",
    "TranslateX",   "TranslateY", "Cutout",     "SolarizeAdd"};

// The random part of one layer.
struct AugmentationDraw {
  Augmentation op = Augmentation::invert;
  bool negative = false;  // the sign of a rotation, shear or translation
  int64_t y = 0, x = 0;   // the centre of a cutout
};
// Draws the operation uniformly, then its sign or its y and x, if it has them.
AugmentationDraw draw_augmentation(int64_t height, int64_t width, Rng& rng);

// Applies one operation in place. The nominal range of `magnitude` is 0 to 10; larger values
// extrapolate.
void augment(const RgbImage& image, const AugmentationDraw& draw, double magnitude);

}  // namespace bv
