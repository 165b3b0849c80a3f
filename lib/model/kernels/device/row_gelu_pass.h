// The passes over the hidden values of an MLP over tokens, in the memory of a CUDA device, without
// LibTorch. lib/model fills these structs, and lib/cuda/row_gelu.cu runs the passes.
#pragma once

#include <cstdint>

#include "lib/util/bf16.h"

namespace bv {

// y = gelu(x + bias); x and y are (rows, size) and contiguous. Row r gets bias[r % period]. The
// GELU is tanh_gelu() of lib/model/kernels/gelu.h.
struct RowGeluPass {
  int64_t rows, size, period;
  const Bf16* x;
  const float* bias;  // (period)
  Bf16* y;
};

// Its gradients.
struct RowGeluGradient {
  int64_t rows, size, period;
  const Bf16* x;
  const float* bias;
  const Bf16* grad;  // of y
  Bf16* dx;
  float* sums;  // (rows): the sum of each row of dx, before it is rounded
};

// Whether the kernels support rows of `size` numbers.
constexpr bool row_gelu_pass_fits(int64_t size) { return size > 0 && size % 8 == 0; }

// The plug-in's functions, which work on a CUDA stream.
using RunRowGelu = void(const RowGeluPass& pass, void* stream);
using RunRowGeluGradient = void(const RowGeluGradient& pass, void* stream);

}  // namespace bv
