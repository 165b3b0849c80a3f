#pragma once

#include <ATen/core/Tensor.h>

#include "lib/model/kernels/device/standardize_pass.h"

namespace bv {

// Standardizes a float32 kernel (k, k, in, out) over (k, k, in) for each output channel. Returns
// the same shape in `type`, float32 or bfloat16. If the weights are stored as (out, k, k, in), one
// fused kernel does this, on CPUs and CUDA devices. LibTorch's operators do it for other layouts,
// and with plain_kernels(). With the rule `bit` the gradient of an output channel with equal
// weights is NaN, as in big_vision.
at::Tensor standardize(const at::Tensor& kernel, StandardizeRule rule,
                       at::ScalarType type = at::kFloat);

}  // namespace bv
