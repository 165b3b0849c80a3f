// The passes of group normalization on a CUDA device. lib/cuda/group_norm.cu computes them, and
// group_norm_cuda.cc calls them.
#pragma once

#include <cstdint>

namespace bv {

// What follows the normalization.
enum class NormTail {
  nothing,
  relu,      // relu(y)
  add_relu,  // relu(y + shortcut)
};

namespace group_norm_parts {

// The tables of each image, (n, kTables, c) float32. y = x * gain + shift.
enum NormTable { kGain, kShift, kMean, kRstd, kTables };

// Neighbouring channels that one thread computes, and that share a byte of `active`.
constexpr int kOctet = 8;

}  // namespace group_norm_parts

// Activations are (n, pixels, c), c a multiple of kOctet and of `groups`.
struct GroupNormShape {
  int64_t n, pixels, c, groups;
};

// The arguments of the forward pass. All memory is the device's.
struct GroupNormForward {
  GroupNormShape shape;
  NormTail tail;
  bool x_bf16, y_bf16;  // bfloat16 instead of float32
  double eps;
  const void* x;
  const float *scale, *bias;  // (c)
  // The next three are for add_relu only. y is float32 there.
  const float* shortcut;  // (n, pixels, c)
  uint16_t* rounded;      // y as bfloat16, or null
  uint8_t* active;        // a bit for each element of y: whether the ReLU lets it pass

  void* y;
  float* tables;  // (n, kTables, c)
};

// The arguments of the backward pass.
struct GroupNormBackward {
  GroupNormShape shape;
  NormTail tail;
  bool x_bf16, y_bf16;
  const void* x;
  const float *scale, *tables;
  const void* grad;  // of y; null counts as zero, for add_relu only
  // The next three are for add_relu only.
  const uint16_t* rounded_grad;  // of `rounded`, or null
  const uint8_t* active;
  float* dshortcut;

  void* dx;               // in the type of x
  float *dscale, *dbias;  // (c)
};

// The plug-in's functions. They run on a CUDA stream, copy nothing to the host, and are
// deterministic. The results of an image do not depend on the number of images; dscale and dbias
// are sums over all images.
using RunGroupNorm = void(const GroupNormForward& pass, void* stream);
using RunGroupNormGradient = void(const GroupNormBackward& pass, void* stream);

}  // namespace bv
