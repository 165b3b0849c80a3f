// Weight standardization on a CUDA device. lib/cuda/standardize.cu computes it, and standardize.cc
// calls it.
#pragma once

#include <cstdint>

namespace bv {

// How the kernel w of a convolution is standardized, with the population's statistics:
//   bit        (w - mean) / (std + 1e-5)           big_vision's models/bit.py
//   bit_paper  (w - mean) / sqrt(var + 1e-10)      big_vision's models/bit_paper.py
enum class StandardizeRule { bit, bit_paper };

inline constexpr double kStdEps = 1e-5, kVarEps = 1e-10;

// Kernels are (rows, size) float32, a row for each output channel.
struct StandardizeForward {
  int64_t rows, size;
  StandardizeRule rule;
  const float* w;
  void* y;
  bool bf16;  // y is bfloat16 instead of float32
};

struct StandardizeBackward {
  int64_t rows, size;
  StandardizeRule rule;
  const float* w;
  const void* grad;  // of y
  float* dw;
  bool bf16;  // grad is bfloat16
};

// The plug-in's functions. They run on a CUDA stream and copy nothing to the host.
using RunStandardize = void(const StandardizeForward& pass, void* stream);
using RunStandardizeGradient = void(const StandardizeBackward& pass, void* stream);

}  // namespace bv
