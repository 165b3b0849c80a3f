// Sums of activations (pixels, c) and of their squares, for the norms. T is float or BFloat16.
#pragma once

#include "lib/device/float_lanes.h"

namespace bv::simd {

template <class V>
[[gnu::always_inline]] inline void store_double(const V& from, double* to) {
  float all[kLanes];
  store(from, all);
  for (int64_t i = 0; i < kLanes; ++i) to[i] = all[i];
}

// Sums x and its square over `pixels`, at least 1, for V vectors of channels, into `sums` (2, c).
// In float32 it sums x minus a pivot, the mean of every eighth pixel, so that neither a large mean
// nor one large value costs it digits: a large value in the sample moves the pivot, but is also a
// large part of the sum of squares.
template <class Floats, int V, class T>
[[gnu::always_inline]] inline void moments_of(const T* x, int64_t pixels, int64_t c, double* sums) {
  constexpr int64_t kEvery = 8;
  Floats pivot[V] = {}, rest[V] = {}, square[V] = {};
  for (int64_t p = 0; p < pixels; p += kEvery) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      Floats value;
      load(x + p * c + v * kLanes, value);
      pivot[v] += value;
    }
  }
  const auto sampled = static_cast<float>((pixels + kEvery - 1) / kEvery);
#pragma GCC unroll 2
  for (int v = 0; v < V; ++v) pivot[v] /= sampled;
  for (int64_t p = 0; p < pixels; ++p) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      Floats value;
      load(x + p * c + v * kLanes, value);
      value -= pivot[v];
      rest[v] += value;
      square[v] += value * value;
    }
  }
  const auto count = static_cast<double>(pixels);
  for (int v = 0; v < V; ++v) {
    double *sum = sums + v * kLanes, *squares = sum + c, pivots[kLanes];
    store_double(pivot[v], pivots);
    store_double(rest[v], sum);
    store_double(square[v], squares);
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      squares[lane] += pivots[lane] * (2 * sum[lane] + count * pivots[lane]);
      sum[lane] += count * pivots[lane];
    }
  }
}

// The same for all channels, a multiple of kLanes.
template <class Floats, class T>
[[gnu::always_inline]] inline void moments(const T* x, int64_t pixels, int64_t c, double* sums) {
  int64_t k = 0;
  for (; k + 2 * kLanes <= c; k += 2 * kLanes) moments_of<Floats, 2>(x + k, pixels, c, sums + k);
  if (k < c) moments_of<Floats, 1>(x + k, pixels, c, sums + k);
}

}  // namespace bv::simd
