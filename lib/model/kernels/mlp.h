#pragma once

#include <ATen/core/Tensor.h>

#include "lib/device/cpu_bf16.h"

namespace bv {

// The tensors of an MLP: weights (hidden, in) and (out, hidden), biases (hidden) and (out),
// float32.
struct MlpWeights {
  at::Tensor in_weight, in_bias, out_weight, out_bias;
};

// Whether mlp() computes x.
bool mlp_fits(const at::Tensor& x, const MlpWeights& weights);

// Returns tanh_gelu(x in_weight^T + in_bias) out_weight^T + out_bias on a CPU. x is (..., in),
// float32 or, where multiplies_bf16_in_float32() (lib/device/cpu_bf16.h), bfloat16. The result has
// the type of x.
//
// The products and what lies between them are float32. One pass over the hidden layer adds the bias
// and applies GELU. In backward one pass computes GELU and its gradient, so of the hidden layer
// only x in_weight^T is kept, in the type of x.
at::Tensor mlp(const at::Tensor& x, const MlpWeights& weights);

// Whether token_mlp() computes x.
bool token_mlp_fits(const at::Tensor& x, const MlpWeights& weights);

// The same over dimension 1 of x (n, in, features): the result is (n, out, features). It transposes
// nothing: the weights are the left operands of products with each image. If x is bfloat16 and
// in_float32 is false, the products and what lies between them are bfloat16.
at::Tensor token_mlp(const at::Tensor& x, const MlpWeights& weights,
                     bool in_float32 = multiplies_bf16_in_float32());

}  // namespace bv
