#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

// Returns softmax(q k^T / sqrt(d)) v, as at::scaled_dot_product_attention(): q (n, heads, l, d),
// k and v (n, heads, m, d); float32 or bfloat16. The result is (n, heads, l, d), and on a CPU in
// memory (n, l, heads, d).
//
// LibTorch's kernel for CPUs multiplies with MKL, which is slow on AMD's processors: forward and
// backward of float32 and bfloat16 take two to three times as long as with this kernel. On CPUs
// with AMX LibTorch's backward in bfloat16 takes four times as long. Like LibTorch's, this kernel
// is FlashAttention (Dao et al. 2022): backward computes the probabilities again, so no tensor of l
// times m numbers for each head is kept. In bfloat16 the probabilities are rounded before they are
// multiplied with v; all sums and the softmax are float32. Where bf16 is multiplied in float32
// (lib/device/cpu_bf16.h), the probabilities are not rounded. On a CPU without the instructions
// that this kernel needs, LibTorch's runs.
//
// If a query, key or value is not finite, its gradients are NaN. So is the result of such a query;
// LibTorch's kernel may give 0 for an infinite one.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

// Returns attention(q, k, v) for one tensor qkv (n, l, 3, heads, d), which holds q, k and v in this
// order. The gradient of qkv is one tensor too.
at::Tensor self_attention(const at::Tensor& qkv);

}  // namespace bv
