// The loops of group_norm.cc over the pixels of an image, with vectors. Activations are
// (pixels, c). T is the type of x, and Y that of the result: float or BFloat16.
#pragma once

#include <ATen/core/Tensor.h>

#include "lib/device/float_lanes.h"
#include "lib/model/kernels/device/group_norm_pass.h"
#include "lib/model/kernels/moments.h"

namespace bv::group_norm_parts {

using simd::kLanes;

// The tables of one image (NormTable), each (c).
struct Tables {
  const float *gain, *shift, *mean;
  Tables(const at::Tensor& tables, int64_t image)
      : gain(tables.const_data_ptr<float>() + image * kTables * tables.size(2)),
        shift(gain + kShift * tables.size(2)),
        mean(gain + kMean * tables.size(2)) {}
};

// Sets g to 0 where the ReLU is inactive (y <= 0). y may be the ReLU's input or its output: both
// are positive at the same places. A NaN counts as active.
template <NormTail Tail, class Floats>
[[gnu::always_inline]] inline void mask_gradient(const Floats& y, Floats& g) {
  if constexpr (Tail == NormTail::nothing) return;
  simd::IntsOf<Floats> dead;
  simd::not_positive(y, dead);
  simd::keep(~dead, g, g);
}

// y = tail(x * gain + shift).
template <class Floats, NormTail Tail, class T, class Y>
[[gnu::always_inline]] inline void normalise(const T* x, const float* shortcut, Y* y,
                                             int64_t pixels, int64_t c, const Tables& tables) {
  for (int64_t p = 0; p < pixels; ++p) {
    for (int64_t k = 0; k < c; k += kLanes) {
      const int64_t at = p * c + k;
      Floats value, gain, shift;
      simd::load(x + at, value);
      simd::load(tables.gain + k, gain);
      simd::load(tables.shift + k, shift);
      value = value * gain + shift;
      if constexpr (Tail == NormTail::add_relu) {
        Floats other;
        simd::load(shortcut + at, other);
        value += other;
      }
      mask_gradient<Tail>(value, value);  // the ReLU itself
      simd::store(value, y + at);
    }
  }
}

// Sums g and g * (x - mean) for V vectors of channels from k on, into `sums` (2, c). g is the
// gradient of the ReLU's input.
template <class Floats, int V, NormTail Tail, class T, class Y>
[[gnu::always_inline]] inline void gradient_sums_of(const T* x, const Y* y, const Y* grad,
                                                    int64_t pixels, int64_t c, int64_t k,
                                                    const Tables& tables, double* sums) {
  Floats gain[V], shift[V], mean[V], sum[V] = {}, product[V] = {};
#pragma GCC unroll 2
  for (int v = 0; v < V; ++v) {
    simd::load(tables.gain + k + v * kLanes, gain[v]);
    simd::load(tables.shift + k + v * kLanes, shift[v]);
    simd::load(tables.mean + k + v * kLanes, mean[v]);
  }
  for (int64_t p = 0; p < pixels; ++p) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      const int64_t at = p * c + k + v * kLanes;
      Floats value, g, out;
      simd::load(x + at, value);
      simd::load(grad + at, g);
      if constexpr (Tail == NormTail::add_relu)
        simd::load(y + at, out);
      else
        out = value * gain[v] + shift[v];
      mask_gradient<Tail>(out, g);
      sum[v] += g;
      product[v] += g * (value - mean[v]);
    }
  }
#pragma GCC unroll 2
  for (int v = 0; v < V; ++v) {
    simd::store_double(sum[v], sums + k + v * kLanes);
    simd::store_double(product[v], sums + c + k + v * kLanes);
  }
}

// The same for all channels.
template <class Floats, NormTail Tail, class T, class Y>
[[gnu::always_inline]] inline void gradient_sums(const T* x, const Y* y, const Y* grad,
                                                 int64_t pixels, int64_t c, const Tables& tables,
                                                 double* sums) {
  int64_t k = 0;
  for (; k + 2 * kLanes <= c; k += 2 * kLanes)
    gradient_sums_of<Floats, 2, Tail>(x, y, grad, pixels, c, k, tables, sums);
  if (k < c) gradient_sums_of<Floats, 1, Tail>(x, y, grad, pixels, c, k, tables, sums);
}

// dx = gain * g + slope * x + offset, and the gradient of the shortcut is g, the gradient of the
// ReLU's input.
template <class Floats, NormTail Tail, class T, class Y>
[[gnu::always_inline]] inline void gradient(const T* x, const Y* y, const Y* grad, T* dx,
                                            float* dshortcut, int64_t pixels, int64_t c,
                                            const Tables& tables, const float* slopes,
                                            const float* offsets) {
  for (int64_t p = 0; p < pixels; ++p) {
    for (int64_t k = 0; k < c; k += kLanes) {
      const int64_t at = p * c + k;
      Floats value, g, out, gain, shift, slope, offset;
      simd::load(x + at, value);
      simd::load(grad + at, g);
      simd::load(tables.gain + k, gain);
      simd::load(tables.shift + k, shift);
      simd::load(slopes + k, slope);
      simd::load(offsets + k, offset);
      if constexpr (Tail == NormTail::add_relu)
        simd::load(y + at, out);
      else
        out = value * gain + shift;
      mask_gradient<Tail>(out, g);
      if constexpr (Tail == NormTail::add_relu) simd::store(g, dshortcut + at);
      simd::store(g * gain + value * slope + offset, dx + at);
    }
  }
}

}  // namespace bv::group_norm_parts
