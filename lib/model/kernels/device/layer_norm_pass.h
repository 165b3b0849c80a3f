// The passes of layer normalization over the memory of a CUDA device, without LibTorch. lib/model
// fills these structs, and lib/cuda/layer_norm.cu runs the passes.
#pragma once

#include <cstdint>

#include "lib/util/bf16.h"

namespace bv {

// (rows, size) tensors, contiguous. s = x + branch, rounded to the type of x, or x without a
// branch. y = (s - mean) * rstd * scale + bias.
struct LayerNormPass {
  int64_t rows, size;
  float eps;
  Numbers x, branch;          // branch.data may be null
  Numbers sum;                // s, in the type of x; only with a branch
  const float *scale, *bias;  // (size)
  Numbers y;
  float* moments;  // (rows, 2): mean and rstd
};

// The gradients of a LayerNormPass.
struct LayerNormGradient {
  int64_t rows, size;
  Numbers x;             // s
  const float* moments;  // of the forward pass
  const float* scale;
  Numbers grad;      // of y
  Numbers grad_sum;  // of s, through its other uses; its data may be null
  Numbers dx;        // of s, in the type of s
  Numbers dbranch;   // the same in the type of the branch; null without one, or if dx has that type
  float* dparams;    // (2, size): the gradients of scale and of bias
};

// Whether the kernels support rows of `size` numbers.
constexpr bool layer_norm_pass_fits(int64_t size) {
  return size > 0 && size <= 2048 && size % 4 == 0;
}

// The plug-in's functions, which work on a CUDA stream.
using RunLayerNorm = void(const LayerNormPass& pass, void* stream);
using RunLayerNormGradient = void(const LayerNormGradient& pass, void* stream);

}  // namespace bv
