// The MLP over tokens of mlp_mixer on CUDA devices. Mlp::over_tokens() chooses it.
#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// Whether device_token_mlp() supports x (n, N, D) and `hidden` features: bfloat16 on a CUDA device,
// D and `hidden` multiples of 8. False with plain_kernels().
bool device_token_mlp_fits(const at::Tensor& x, int64_t hidden);

// Applies Dense, GELU (tanh approximation) and Dense over dimension 1 of x, (n, N, D) bfloat16. The
// kernels (N, hidden) and (hidden, N) and the biases (hidden) and (N) are float32. Returns
// (n, N, D) bfloat16. D stays last in all products, so nothing is transposed in memory. The rows of
// the weights are padded to multiples of 16 bytes, because cuBLAS is slow with other rows.
at::Tensor device_token_mlp(const at::Tensor& x, const at::Tensor& kernel1, const at::Tensor& bias1,
                            const at::Tensor& kernel2, const at::Tensor& bias2);

}  // namespace bv
