// The arithmetic of GELU with the tanh approximation, on vectors.
#pragma once

#include <bit>

#include "lib/device/float_lanes.h"
#include "lib/model/kernels/exp_series.h"

namespace bv::simd {

inline constexpr float kTwoRoots = 1.5957691216f;  // 2 sqrt(2 / pi)
inline constexpr float kCubic = 0.044715f;

// y = exp(x) for |x| <= 87, to about one unit in the last place. A NaN stays a NaN.
template <class V>
[[gnu::always_inline]] inline void small_exponential(const V& x, V& y) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: what is added to it is rounded to integers
  const V shifted = x * 1.44269504f + kRound, n = shifted - kRound;
  exp_of_rest(x, n, y);
  const WordsOf<V> exponent = ((WordsOf<V>)shifted - 0x4B400000u + 127u) << 23;
  y *= (V)exponent;
}

// y = 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2 u)), without the difference of two numbers near 1, where
// u = sqrt(2 / pi) (x + 0.044715 x^3). So GELU is x y. Where exp(-2 u) is out of range, -2 u is
// taken as 87 or -87, and y is exactly 0 or 1.
template <class V>
[[gnu::always_inline]] inline void gelu_gate(const V& x, V& y) {
  using Ints = IntsOf<V>;
  constexpr auto kLargest = std::bit_cast<int32_t>(87.0f);
  const Ints t = (Ints)(x * (x * x * kCubic + 1.0f) * -kTwoRoots), size = t & 0x7fffffff;
  Ints nan;
  is_nan((V)t, nan);
  const Ints over = ((kLargest - size) >> 31) & ~nan, negative = t >> 31;
  V within, power;
  choose(over, (V)((t ^ size) | kLargest), (V)t, within);
  small_exponential(within, power);
  keep(~over | negative, 1.0f / (power + 1.0f), y);
}

// y = the derivative of GELU at x; `gate` is gelu_gate(x).
template <class V>
[[gnu::always_inline]] inline void gelu_slope(const V& x, const V& gate, V& y) {
  const V slope = (x * x * (3 * kCubic) + 1.0f) * kTwoRoots;  // of 2 u
  y = gate + gate * (1.0f - gate) * x * slope;
}

}  // namespace bv::simd
