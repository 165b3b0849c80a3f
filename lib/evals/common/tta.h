// Test-time augmentation, the key `evals.*.tta`: the model's outputs are averaged over several
// augmented views of each image.
//
// Follows infer() in airbench94.py of K. Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU"
// (2024).
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "lib/config/config.h"

namespace bv {

struct Tta {
  bool mirror = false;  // each view also mirrored left to right
  int64_t shift = 0;    // pixels; 0: no shifted views

  bool any() const { return mirror || shift > 0; }
};

// Reads the mapping `tta` of an evaluator.
Tta read_tta(const Config& config);

// Returns the augmented views of images (n, height, width, channels) with their weights, which sum
// to 1. The unchanged images come first. Shifted views are moved by `shift` pixels up and left, or
// down and right, and padded by reflection. Together they have half of the weight. A mirrored view
// has the same weight as the view that it mirrors. Throws Error(Exit::usage) if the images are too
// small.
std::vector<std::pair<at::Tensor, double>> tta_forms(const at::Tensor& images, const Tta& tta);

}  // namespace bv
