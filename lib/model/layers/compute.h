// What layers with matmuls and convolutions share.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "lib/model/pass.h"

namespace bv {

// Returns the type in which matmuls and convolutions compute: float32 or bfloat16.
at::ScalarType compute_type(const Pass& pass);
// Returns x in that type.
at::Tensor to_compute(const at::Tensor& x, const Pass& pass);

// Adds multiply-accumulates to pass.macs if it is set.
void count_macs(Pass& pass, int64_t macs);

// Returns x (..., in) times `kernel` plus `bias`: (..., out) of `type`. The kernel may have any
// shape that flattens to (in, out). Counts multiply-accumulates.
at::Tensor matmul(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias,
                  at::ScalarType type, Pass& pass);

}  // namespace bv
