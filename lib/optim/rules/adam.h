// The update rule of Adam: the arithmetic of lib/optim/adam.h.
#pragma once

#include "lib/optim/rules/rule.h"

namespace bv {

template <class Mu, bool kNesterov>
struct AdamRule {
  Mu* mu;
  float* nu;
  float b1_stored;             // b1, rounded to the type in which mu is stored
  float b1, rest1, b2, rest2;  // b1, 1 - b1, b2, 1 - b2
  float eps, eps_root;
  float weight_decay, factor;
  // In update k: 1 - b1^k, 1 - b1^(k+1), 1 - b2^k.
  float correct1 = 1, correct1_next = 1, correct2 = 1;

  BV_INLINE void read(const float* numbers) {
    correct1 = numbers[0];
    correct1_next = numbers[1];
    correct2 = numbers[2];
  }
  template <int64_t N>
  BV_INLINE void block(const Lanes<N>& x, const float* p, Lanes<N>& u, int64_t at) const {
    Mu* m = mu + at;
    float* v = nu + at;
    alignas(N % 16 == 0 ? 64 : 4) Lanes<N> first, second;
#pragma GCC ivdep
    for (int64_t i = 0; i < N; ++i) {
      first[i] = rest1 * x[i] + b1_stored * load(m[i]);
      second[i] = rest2 * (x[i] * x[i]) + b2 * v[i];
    }
#pragma GCC ivdep
    for (int64_t i = 0; i < N; ++i) store(m[i], first[i]);
#pragma GCC ivdep
    for (int64_t i = 0; i < N; ++i) v[i] = second[i];
    for (int64_t i = 0; i < N; ++i) {
      float moment = first[i] / correct1;
      if constexpr (kNesterov) {
        moment = b1 * (first[i] / correct1_next) + rest1 * (x[i] / correct1);
      }
      u[i] = moment / (root(second[i] / correct2 + eps_root) + eps);
    }
    if (factor == 1 && weight_decay == 0) return;
    for (int64_t i = 0; i < N; ++i) u[i] = factor * (u[i] + weight_decay * p[i]);
  }
};

}  // namespace bv
