// What the two residual networks of BiT share: bit (ResNet V1, big_vision's models/bit.py) and
// bit_paper (ResNet V2, models/bit_paper.py).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lib/config/config.h"
#include "lib/config/key_table.h"
#include "lib/model/layers/dense.h"
#include "lib/model/pass.h"
#include "lib/model/variants.h"

namespace bv {

// Groups of every group norm.
constexpr int64_t kResnetGroups = 32;

// The size of a residual network.
struct ResnetShape {
  int64_t width = 64;           // channels of the root: int(64 * `width` of the config)
  std::vector<int64_t> blocks;  // residual units in each stage
};
// The keys that read_resnet_shape() reads.
inline constexpr KeyText kResnetKeys[] = {
    {"depth", "'26' | '50' | '101' | '152' | '200' | list of int >= 1", "50",
     "Number of layers, or a list with the number of residual units in each stage, for at most 12 "
     "stages. Each stage after the first halves height and width and doubles the channels. More "
     "layers are slower and usually more accurate.",
     "[3, 4, 6, 3]"},
    {"width", "float 0.5..64", "1",
     "Multiplies the number of channels: the first convolution has 64 * width, rounded down, which "
     "must be a multiple of 32. The number of parameters grows with its square."},
};
// Reads the keys `depth` and `width`. Throws Error(Exit::usage) for values out of range.
ResnetShape read_resnet_shape(const Config& config);
// Returns the published sizes, R26x1 to R200x1, for `bvtrain --list models`.
std::vector<NamedVariant> resnet_variants();

// Returns the maximum over 3x3 windows of (n, c, h, w) with stride 2 and padding SAME:
// ceil(size / 2) outputs a side. The border counts as -inf.
at::Tensor max_pool_same(const at::Tensor& x);

// Returns (n, c, h, w) as a view (n, h, w, c): big_vision's layout, in which activations are kept.
at::Tensor channels_last_view(const at::Tensor& x);

// Averages (n, c, h, w) over space and applies the head if it is defined. Returns logits, or
// pre_logits without a head. Keeps the activations pre_logits_2d, pre_logits, logits_2d and logits.
at::Tensor resnet_head(const at::Tensor& x, const Dense& head, Pass& pass);

}  // namespace bv
