// What optimizers' rules are made of. A rule is arithmetic on N elements: the fused pass of the CPU
// calls it with N = kBlock, the CUDA plug-in's kernel with N = 1, so there is one source for both.
//
// Rule: template <int64_t N> void block(const Lanes<N>& x, const float* p, Lanes<N>& u,
// int64_t at): from the gradients x and the parameters p to the updates u, with its state at offset
// `at` of its buffers. Rules are plain structs of numbers and pointers.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "lib/util/philox.h"

namespace bv {

template <int64_t N>
using Lanes = std::array<float, N>;

// bfloat16 in memory.
struct Bf16 {
  uint16_t bits;
};
BV_INLINE float load(const float& x) { return x; }
BV_INLINE float load(const Bf16& x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}
BV_INLINE void store(float& at, float x) { at = x; }
BV_INLINE void store(Bf16& at, float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t nearest_even = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  at.bits = static_cast<uint16_t>(x != x ? 0x7fc0u : nearest_even);
}
BV_INLINE float root(float x) {
#ifdef __CUDA_ARCH__
  return sqrtf(x);
#else
  return __builtin_sqrtf(x);
#endif
}

// A stretch of parameters that are updated alike: its places in buffers of state, the parameters
// and the gradients.
struct FusedChunk {
  int64_t begin, end, data, grad;
  bool counts;
  float lr_mult, weight_decay, schedule;
};

// Of the whole step. Where `limit` > 0 and the gradients' norm is not below it, a gradient is
// (g / norm) * limit.
struct FusedScalars {
  float lr, ema_decay, norm, limit;
};

// The whole chain of reference section 6 on N elements at `at`: clip, rule, * lr, * lr_mult,
// + weight_decay * p, * schedule, * -1, add; and the averaged weights where `ema` is given. g and
// target are the elements', `ema` is the buffer. u and p become what was added and what it gave.
template <int64_t N, class Rule>
BV_INLINE void fused_block(const Rule& rule, const FusedChunk& chunk, const FusedScalars& scalars,
                           int64_t at, const float* g, float* target, float* ema, Lanes<N>& u,
                           Lanes<N>& p) {
  const float lr = scalars.lr, lr_mult = chunk.lr_mult, wd = chunk.weight_decay;
  const float schedule = chunk.schedule, decay = scalars.ema_decay, rest = 1.0F - decay;
  const float norm = scalars.norm, limit = scalars.limit;
  alignas(N % 16 == 0 ? 64 : 4) Lanes<N> x;
  if (limit > 0 && !(norm < limit)) {
    for (int64_t i = 0; i < N; ++i) x[i] = g[i] / norm * limit;
  } else {
    for (int64_t i = 0; i < N; ++i) x[i] = g[i];
  }
  rule.template block<N>(x, target, u, at);
  for (int64_t i = 0; i < N; ++i) {
    u[i] = -((u[i] * lr * lr_mult + wd * target[i]) * schedule);
    p[i] = target[i] + u[i];
  }
  for (int64_t i = 0; i < N; ++i) target[i] = p[i];
  if (!ema) return;
  float* e = ema + at;
#pragma GCC ivdep
  for (int64_t i = 0; i < N; ++i) e[i] = decay * e[i] + rest * p[i];
}

}  // namespace bv
