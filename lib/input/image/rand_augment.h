// RandAugment (Cubuk, Zoph, Shlens, Le: "RandAugment: practical automated data augmentation with a
// reduced search space", 2019), with the operations and constants of big_vision's
// `archive.randaug`: reference section 12.7.
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
// The paper's names, in this order.
constexpr std::array<std::string_view, 16> kAugmentationNames = {
    "AutoContrast", "Equalize",   "Invert",     "Rotate",     "Posterize", "Solarize",
    "Color",        "Contrast",   "Brightness", "Sharpness",  "ShearX",    "ShearY",
    "TranslateX",   "TranslateY", "Cutout",     "SolarizeAdd"};

// What is random in one layer.
struct AugmentationDraw {
  Augmentation op = Augmentation::invert;
  bool negative = false;  // rotate, shear and translate
  int64_t y = 0, x = 0;   // cutout: the centre
};
// Draws: the op, uniformly; then the sign, or y and x, of an op that has one.
AugmentationDraw draw_augmentation(int64_t height, int64_t width, Rng& rng);

// magnitude 0 .. 10, or more: 10 is the nominal maximum.
void augment(const RgbImage& image, const AugmentationDraw& draw, double magnitude);

}  // namespace bv
