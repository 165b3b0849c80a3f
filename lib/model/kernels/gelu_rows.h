// The passes of mlp.cc over a hidden layer: a bias, GELU, and their gradients. T is float or
// BFloat16; the arithmetic is float32.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "lib/model/kernels/gelu_parts.h"
#include "lib/model/kernels/row_chunks.h"

namespace bv {

// What the numbers of a bias belong to. The hidden layer is a matrix (rows, columns).
enum class BiasOf {
  columns,  // bias (columns)
  rows,     // bias (m): row i gets bias[i % m]
};

template <BiasOf kBiasOf, class V>
[[gnu::always_inline]] inline void load_bias(const float* bias, int64_t row, int64_t column,
                                             int64_t count, V& to) {
  if constexpr (kBiasOf == BiasOf::rows)
    to = V{} + bias[row];
  else
    simd::load_some(bias + column, count, to);
}

// y = tanh_gelu(h + bias); both have type T. y may be h. If `copy` is not null, it becomes h.
template <BiasOf kBiasOf, class T>
void gelu_rows(const at::Tensor& h, const at::Tensor& bias, const at::Tensor& y,
               c10::BFloat16* copy) {
  const RowChunks rows = {h.numel() / h.size(-1), h.size(-1)};
  const T* const from = h.const_data_ptr<T>();
  const float* const shift = bias.const_data_ptr<float>();
  T* const to = y.data_ptr<T>();
  const int64_t biases = bias.numel();
  const auto chunk = [=](auto registers, int64_t, int64_t first, int64_t last)
      __attribute__((always_inline)) {
    using Floats = typename decltype(registers)::Floats;
    for (int64_t row = first; row < last; ++row) {
      for (int64_t j = 0; j < rows.size; j += simd::kLanes) {
        const int64_t at = row * rows.size + j, count = rows.size - j;
        Floats x, b, gate;
        simd::load_some(from + at, count, x);
        load_bias<kBiasOf>(shift, row % biases, j, count, b);
        if (copy != nullptr) simd::store_some(x, count, copy + at);
        x += b;
        simd::gelu_gate(x, gate);
        simd::store_some(x * gate, count, to + at);
      }
    }
  };
  for_chunks(rows, chunk);
}

// Returns memory for the sums of gelu_rows_backward(): (parts, biases) float32, whose sum over the
// parts is the gradient of the bias.
template <BiasOf kBiasOf>
at::Tensor empty_sums(const at::Tensor& h, const at::Tensor& bias) {
  const RowChunks rows = {h.numel() / h.size(-1), h.size(-1)};
  const int64_t parts = kBiasOf == BiasOf::rows ? rows.count / bias.numel() : rows.chunks();
  return at::empty({parts, bias.numel()}, bias.options());
}

// grad = grad times the derivative of GELU at h + bias, y = tanh_gelu(h + bias), and `sums` = sums
// of the new grad: of each row, or of each column in each chunk of rows, (chunks, columns). h has
// type H, grad and y have type T, and sums are float32.
template <BiasOf kBiasOf, class H, class T>
void gelu_rows_backward(const at::Tensor& h, const at::Tensor& bias, const at::Tensor& grad,
                        const at::Tensor& y, const at::Tensor& sums) {
  const RowChunks rows = {h.numel() / h.size(-1), h.size(-1)};
  const H* const from = h.const_data_ptr<H>();
  const float* const shift = bias.const_data_ptr<float>();
  T *const g = grad.data_ptr<T>(), *const to = y.data_ptr<T>();
  float* const parts = sums.data_ptr<float>();
  const int64_t biases = bias.numel();
  const auto chunk = [=](auto registers, int64_t i, int64_t first, int64_t last)
      __attribute__((always_inline)) {
    using Floats = typename decltype(registers)::Floats;
    float* of_columns = nullptr;
    if constexpr (kBiasOf == BiasOf::columns) {
      of_columns = parts + i * rows.size;
      std::fill_n(of_columns, rows.size, 0.0f);
    }
    for (int64_t row = first; row < last; ++row) {
      Floats of_row{};
      for (int64_t j = 0; j < rows.size; j += simd::kLanes) {
        const int64_t at = row * rows.size + j, count = rows.size - j;
        Floats x, b, above, gate, slope, total;
        simd::load_some(from + at, count, x);
        load_bias<kBiasOf>(shift, row % biases, j, count, b);
        simd::load_some(g + at, count, above);
        x += b;
        simd::gelu_gate(x, gate);
        simd::gelu_slope(x, gate, slope);
        above *= slope;
        simd::store_some(x * gate, count, to + at);
        simd::store_some(above, count, g + at);
        if constexpr (kBiasOf == BiasOf::rows) {
          of_row += above;
        } else {
          simd::load_some(of_columns + j, count, total);
          simd::store_some(total + above, count, of_columns + j);
        }
      }
      if (kBiasOf == BiasOf::rows) parts[row] = simd::sum_of(of_row);
    }
  };
  for_chunks(rows, chunk);
}

}  // namespace bv
