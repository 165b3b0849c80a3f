// What the update rules of optimizers have in common. A rule is arithmetic on N elements. The CPU
// calls it with N = kBlock (lib/optim/fused.h), the CUDA plug-in with N = 1 (lib/cuda/kernels.cu),
// so that both share one source.
//
// A rule is a plain struct of numbers and pointers to its state buffers, with a method
//   template <int64_t N>
//   void block(const Lanes<N>& x, const float* p, Lanes<N>& u, int64_t at) const;
// It computes the directions u from the gradients x and the parameters p, and updates its state,
// whose first element is at offset `at` of the buffers. A rule whose numbers change from step to
// step also has `void read(const float* numbers)`, which takes them from FusedNumbers.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "lib/util/bf16.h"
#include "lib/util/philox.h"

namespace bv {

template <int64_t N>
using Lanes = std::array<float, N>;

BV_INLINE float root(float x) {
#ifdef __CUDA_ARCH__
  return sqrtf(x);
#else
  return __builtin_sqrtf(x);
#endif
}

// A range of elements that share their settings, like UpdateRange: [begin, end) in the state
// buffers; data and grad are the offsets of `begin` in the parameter and gradient buffers.
struct FusedChunk {
  int64_t begin, end, data, grad;
  bool counts;
  float lr_mult, weight_decay;
  int schedule;  // index
};

// Settings of all steps. If limit > 0 and the norm of the gradients is not below it, a gradient g
// becomes (g / norm) * limit.
struct FusedScalars {
  float lr, limit;
};

// The numbers that change from step to step. They are in memory on the parameters' device, because
// a pass that is recorded once and then repeated gets the same arguments each time.
struct FusedNumbers {
  static constexpr int kRule = 3;  // how many belong to the rule
  // Their places: the decay of the averaged weights is at 0.
  static constexpr int kRulePlace = 1, kSchedules = kRulePlace + kRule;

  const float* at;

  BV_INLINE float ema_decay() const { return at[0]; }
  BV_INLINE const float* rule() const { return at + kRulePlace; }
  BV_INLINE float schedule(int index) const { return at[kSchedules + index]; }
};

// What the elements of a range have in common in one step.
struct FusedFactors {
  float lr, lr_mult, weight_decay, schedule, ema_decay, norm, limit;
};

BV_INLINE FusedFactors fused_factors(const FusedChunk& chunk, const FusedScalars& scalars,
                                     const FusedNumbers& numbers, float norm) {
  return {scalars.lr,          chunk.lr_mult, chunk.weight_decay, numbers.schedule(chunk.schedule),
          numbers.ema_decay(), norm,          scalars.limit};
}

// Returns the rule as it is in this step.
template <class Rule>
BV_INLINE Rule in_step(Rule rule, const FusedNumbers& numbers) {
  if constexpr (requires { rule.read(numbers.rule()); }) rule.read(numbers.rule());
  return rule;
}

// Updates N elements, whose state is at offset `at`: clip, rule, * lr, * lr_mult,
// + weight_decay * p, * schedule, * -1, add to the parameter; and the averaged weights if `ema` is
// not null. g and target point to the elements' gradients and parameters, ema to the start of its
// buffer. Returns the updates in u and the new parameters in p. The order of operations is that of
// optax.py `make` of big_vision.
template <int64_t N, class Rule>
BV_INLINE void fused_block(const Rule& rule, const FusedFactors& factors, int64_t at,
                           const float* g, float* target, float* ema, Lanes<N>& u, Lanes<N>& p) {
  const float lr = factors.lr, lr_mult = factors.lr_mult, wd = factors.weight_decay;
  const float schedule = factors.schedule, decay = factors.ema_decay, rest = 1.0F - decay;
  const float norm = factors.norm, limit = factors.limit;
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
