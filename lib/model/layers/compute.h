// What layers with matmuls and convolutions share.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "lib/model/pass.h"

namespace bv {

// Returns the type in which matmuls and convolutions compute: float32 or bfloat16.
at::ScalarType compute_type(const Pass& pass);
// Returns the type in which weights for x are best passed to matmul() and convolve(): float32 where
// bf16 is multiplied in float32, compute_type() elsewhere.
at::ScalarType weight_type(const at::Tensor& x, const Pass& pass);
// Returns x in compute_type().
at::Tensor to_compute(const at::Tensor& x, const Pass& pass);

// Adds multiply-accumulates to pass.macs if it is set.
void count_macs(Pass& pass, int64_t macs);

// Returns x (..., in) times `kernel` plus `bias`: (..., out) of `type`. The kernel may have any
// shape that flattens to (in, out). Counts multiply-accumulates.
at::Tensor matmul(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias,
                  at::ScalarType type, Pass& pass);

// Returns the convolution of x (n, in, h, w) with weight (out, in, k, k) plus bias (out), if it is
// defined, in compute_type(pass). stride and padding are (rows, columns). Counts
// multiply-accumulates.
at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                    at::IntArrayRef stride, at::IntArrayRef padding, Pass& pass);

}  // namespace bv
