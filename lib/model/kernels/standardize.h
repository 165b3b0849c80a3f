#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// How the kernel w of a convolution is standardised, with the population's statistics:
//   bit        (w - mean) / (std + 1e-5)           big_vision's models/bit.py
//   bit_paper  (w - mean) / sqrt(var + 1e-10)      big_vision's models/bit_paper.py
enum class StandardizeRule { bit, bit_paper };

// Standardises a float32 kernel (k, k, in, out) over (k, k, in) for each output channel. Returns
// the same shape in `type`, float32 or bfloat16. On a CPU a kernel that is stored as
// (out, k, k, in) takes one fused kernel. Other layouts, other devices and plain_kernels() take
// LibTorch's operators. With the rule `bit` the gradient of an output channel with equal weights is
// NaN, as in big_vision.
at::Tensor standardize(const at::Tensor& kernel, StandardizeRule rule,
                       at::ScalarType type = at::kFloat);

}  // namespace bv
