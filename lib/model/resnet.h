// What BiT's two residual networks share: bit (ResNet V1) and bit_paper (V2). Reference
// sections 9.3 and 9.4.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lib/model/layers.h"
#include "lib/model/variants.h"

namespace bv {

constexpr int64_t kResnetGroups = 32;  // of every norm

// Convolution with a kernel that is standardised over (height, width, in) for each output channel
// where it is used; it is stored, decayed and updated as it is. No bias.
struct StdConv {
  // (w - mean) / (std + 1e-5), and (w - mean) / sqrt(var + 1e-10); population statistics.
  enum class Rule { bit, bit_paper };
  // As TensorFlow's SAME: ceil(size / stride) outputs, the smaller half of the border at the left
  // and the top; or (k - 1) / 2 on each side.
  enum class Padding { same, symmetric };

  at::Tensor kernel;  // (k, k, in, out), in memory (out, k, k, in)
  int64_t stride = 1;
  Rule rule = Rule::bit;
  Padding padding = Padding::same;

  // Registers `name`/kernel, LeCun normal.
  static StdConv add(Layer& owner, const std::string& name, int64_t size, int64_t in, int64_t out,
                     int64_t stride, Rule rule, Padding padding);
  // (n, in, h, w) to (n, out, h', w') in pass.precision.
  at::Tensor operator()(const at::Tensor& x, Pass& pass) const;
};

// The kernel as a StdConv uses it, float32.
at::Tensor standardize(const at::Tensor& kernel, StdConv::Rule rule);

// Maximum over 3x3 with stride 2 of (n, c, h, w), padding SAME with -inf: ceil(size / 2) outputs.
at::Tensor max_pool_same(const at::Tensor& x);

// The keys `depth` and `width` of both.
struct ResnetShape {
  int64_t width = 64;           // int(64 * width): channels of the root
  std::vector<int64_t> blocks;  // residual units of each stage
};
ResnetShape read_resnet_shape(const Config& config);
// R26x1, R50x1, ... R152x4
std::vector<NamedVariant> resnet_variants();

// (n, c, h, w) as the reference's (n, h, w, c), for features.
at::Tensor channels_last_view(const at::Tensor& x);

// The mean over space and where it is defined the head, of (n, c, h, w): logits or pre_logits.
// Keeps pre_logits_2d, pre_logits, logits_2d and logits.
at::Tensor resnet_head(const at::Tensor& x, const Dense& head, Pass& pass);

}  // namespace bv
