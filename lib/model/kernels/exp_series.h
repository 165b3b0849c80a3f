#pragma once

namespace bv {

// y = exp(x - n ln(2)) for x - n ln(2) within +-ln(2) / 2, to about one unit in the last place. The
// polynomial is that of Moshier's Cephes library (expf). exp(x) is then 2^n y. V: float, or a
// vector of floats. Always inlined, so that it is compiled for the instructions of its caller.
template <class V>
[[gnu::always_inline]] inline void exp_of_rest(const V& x, const V& n, V& y) {
  const V r = x - n * 0.693359375f - n * -2.12194440e-4f;
  V p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  y = p * r * r + r + 1.0f;
}

}  // namespace bv
