// The update rules of lib/optim/momentum.h and of the optimizers in lib/optim/optimizers/
// other than Adam.
#pragma once

#include "lib/optim/rules/rule.h"

namespace bv {

// u = factor * x.
struct FactorRule {
  float factor;

  template <int64_t N>
  BV_INLINE void block(const Lanes<N>& x, const float*, Lanes<N>& u, int64_t) const {
    for (int64_t i = 0; i < N; ++i) u[i] = factor * x[i];
  }
};

// t = x + momentum * t; u = factor * t, or with Nesterov momentum factor * (x + momentum * t).
template <class T, bool kNesterov>
struct MomentumRule {
  T* trace;
  float stored, momentum;  // the momentum, rounded to T and exact
  float factor;

  template <int64_t N>
  BV_INLINE void block(const Lanes<N>& x, const float*, Lanes<N>& u, int64_t at) const {
    T* t = trace + at;
    alignas(N % 16 == 0 ? 64 : 4) Lanes<N> sum;
#pragma GCC ivdep
    for (int64_t i = 0; i < N; ++i) sum[i] = x[i] + stored * load(t[i]);
#pragma GCC ivdep
    for (int64_t i = 0; i < N; ++i) store(t[i], sum[i]);
    for (int64_t i = 0; i < N; ++i) {
      u[i] = factor * (kNesterov ? x[i] + momentum * sum[i] : sum[i]);
    }
  }
};

// e = momentum * e + (1 - momentum) * x, without bias correction; u = e. For scale_by_adafactor.
template <class T>
struct AverageRule {
  T* average;
  float stored, rest;  // the momentum rounded to T, and 1 - momentum

  template <int64_t N>
  BV_INLINE void block(const Lanes<N>& x, const float*, Lanes<N>& u, int64_t at) const {
    T* e = average + at;
#pragma GCC ivdep
    for (int64_t i = 0; i < N; ++i) u[i] = rest * x[i] + stored * load(e[i]);
#pragma GCC ivdep
    for (int64_t i = 0; i < N; ++i) store(e[i], u[i]);
  }
};

}  // namespace bv
