// The loops of attention.cc around its products: softmax, layouts and rounding, with vectors. T and
// From are float or BFloat16. Where no "ld" is given, rows follow each other without gaps.
#pragma once

#include <cmath>

#include "lib/device/float_lanes.h"
#include "lib/model/kernels/exp_series.h"

namespace bv {

// The logarithm of the sum of a row that does not exist: its probabilities are practically 0.
inline constexpr float kNothing = 1e30f;

namespace simd {

// exp(x) for x up to 88, to about one unit in the last place. Below -87 it is exp(-87). A NaN stays
// a NaN.
template <class V>
[[gnu::always_inline]] inline void exponential(const V& x, V& y) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: what is added to it is rounded to integers
  const V least = V{} - 87.0f;
  IntsOf<V> low;
  at_most(x, least, low);
  V z;
  choose(low, least, x, z);
  const V shifted = z * 1.44269504f + kRound, n = shifted - kRound;
  exp_of_rest(z, n, y);
  const WordsOf<V> exponent = ((WordsOf<V>)shifted - 0x4B400000u + 127u) << 23;
  y *= (V)exponent;
}

}  // namespace simd

// For each row of `scores` (rows, m), which may be overwritten: weights = exp(scale (score - the
// maximum)), norms = 1 / their sum, log_sums = log(sum(exp(scale score))). ld: of scores and
// weights, a multiple of 16. Weights from column m on are practically 0.
template <class T>
void softmax_rows(float* scores, int64_t rows, int64_t m, int64_t ld, float scale, T* weights,
                  float* norms, float* log_sums) {
  simd::dispatch([&](auto registers) __attribute__((always_inline)) {
    using Floats = typename decltype(registers)::Floats;
    for (int64_t i = 0; i < rows; ++i) {
      float* const row = scores + i * ld;
      for (int64_t j = m; j < ld; ++j) row[j] = -kNothing;
      Floats tops;
      simd::load(row, tops);
      for (int64_t j = simd::kLanes; j < ld; j += simd::kLanes) {
        Floats x;
        simd::load(row + j, x);
        simd::IntsOf<Floats> more;
        simd::at_most(tops, x, more);
        simd::choose(more, x, tops, tops);
      }
      const float top = simd::greatest_of(tops);
      Floats sums{};
      for (int64_t j = 0; j < ld; j += simd::kLanes) {
        Floats x, y;
        simd::load(row + j, x);
        simd::exponential((x - top) * scale, y);
        simd::store(y, weights + i * ld + j);
        sums += y;
      }
      const float sum = simd::sum_of(sums);
      norms[i] = 1.0f / sum;
      log_sums[i] = top * scale + std::log(sum);
    }
  });
}

// p = exp(scale scores - log_sums) and ds = p (slopes - deltas) scale, all (rows, ld) with ld a
// multiple of 16; log_sums and deltas (ld).
template <class T>
void softmax_slopes(const float* scores, const float* slopes, int64_t rows, int64_t ld, float scale,
                    const float* log_sums, const float* deltas, T* p, T* ds) {
  simd::dispatch([&](auto registers) __attribute__((always_inline)) {
    using Floats = typename decltype(registers)::Floats;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < ld; j += simd::kLanes) {
        Floats x, slope, log_sum, delta, y;
        simd::load(scores + i * ld + j, x);
        simd::load(slopes + i * ld + j, slope);
        simd::load(log_sums + j, log_sum);
        simd::load(deltas + j, delta);
        simd::exponential(x * scale - log_sum, y);
        simd::store(y, p + i * ld + j);
        simd::store(y * (slope - delta) * scale, ds + i * ld + j);
      }
    }
  });
}

// sums[i] = the sum over j of a[i, j] b[i, j]; a and b (rows, d).
template <class T>
void row_products(const T* a, int64_t lda, const T* b, int64_t ldb, int64_t rows, int64_t d,
                  float* sums) {
  simd::dispatch([&](auto registers) __attribute__((always_inline)) {
    using Floats = typename decltype(registers)::Floats;
    for (int64_t i = 0; i < rows; ++i) {
      Floats sum{};
      for (int64_t j = 0; j < d; j += simd::kLanes) {
        Floats x, y;
        simd::load_some(a + i * lda + j, d - j, x);
        simd::load_some(b + i * ldb + j, d - j, y);
        sum += x * y;
      }
      sums[i] = simd::sum_of(sum);
    }
  });
}

// Row i of `to` = row i of `from` times factors[i], or times 1 if factors is null; both (rows, d).
template <class From, class T>
void store_scaled(const From* from, int64_t ldfrom, const float* factors, int64_t rows, int64_t d,
                  T* to, int64_t ldto) {
  simd::dispatch([&](auto registers) __attribute__((always_inline)) {
    using Floats = typename decltype(registers)::Floats;
    for (int64_t i = 0; i < rows; ++i) {
      const float factor = factors == nullptr ? 1.0f : factors[i];
      for (int64_t j = 0; j < d; j += simd::kLanes) {
        Floats x;
        simd::load_some(from + i * ldfrom + j, d - j, x);
        simd::store_some(x * factor, d - j, to + i * ldto + j);
      }
    }
  });
}

}  // namespace bv
