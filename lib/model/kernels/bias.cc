#include "lib/model/kernels/bias.h"

#include <ATen/ops/empty.h>

#include "lib/model/kernels/row_chunks.h"

namespace bv {
namespace {

using c10::BFloat16;

template <class T>
void add_to_rows(const at::Tensor& y, const at::Tensor& bias) {
  const RowChunks rows = {y.size(0) * y.size(1), y.size(2)};
  T* const data = y.data_ptr<T>();
  const float* const shift = bias.const_data_ptr<float>();
  const int64_t biases = bias.numel();
  for_chunks(
      rows, [=](auto registers, int64_t, int64_t first, int64_t last)
                __attribute__((always_inline)) {
                  using Floats = typename decltype(registers)::Floats;
                  for (int64_t row = first; row < last; ++row) {
                    T* const at = data + row * rows.size;
                    for (int64_t j = 0; j < rows.size; j += simd::kLanes) {
                      Floats x;
                      simd::load_some(at + j, rows.size - j, x);
                      x += shift[row % biases];
                      simd::store_some(x, rows.size - j, at + j);
                    }
                  }
                });
}

template <class T>
void sum_each_row(const at::Tensor& x, float* sums) {
  const RowChunks rows = {x.size(0) * x.size(1), x.size(2)};
  const T* const data = x.const_data_ptr<T>();
  for_chunks(
      rows, [=](auto registers, int64_t, int64_t first, int64_t last)
                __attribute__((always_inline)) {
                  using Floats = typename decltype(registers)::Floats;
                  for (int64_t row = first; row < last; ++row) {
                    Floats sum{}, x;
                    for (int64_t j = 0; j < rows.size; j += simd::kLanes) {
                      simd::load_some(data + row * rows.size + j, rows.size - j, x);
                      sum += x;
                    }
                    sums[row] = simd::sum_of(sum);
                  }
                });
}

// Writes the sums of kVectors * kLanes columns, or of the first `count`, to `sums`. Takes several
// vectors of a row at once, so that it reads whole cache lines.
template <class Floats, int kVectors, class T>
[[gnu::always_inline]] inline void sum_some_columns(const T* from, int64_t rows, int64_t stride,
                                                    int64_t count, float* sums) {
  Floats sum[kVectors] = {}, x;
  for (int64_t row = 0; row < rows; ++row) {
    for (int v = 0; v < kVectors; ++v) {
      simd::load_some(from + row * stride + v * simd::kLanes, count - v * simd::kLanes, x);
      sum[v] += x;
    }
  }
  for (int v = 0; v < kVectors; ++v)
    simd::store_some(sum[v], count - v * simd::kLanes, sums + v * simd::kLanes);
}

template <class T>
void sum_chunks_of_rows(const RowChunks& rows, const at::Tensor& x, float* parts) {
  const T* const data = x.const_data_ptr<T>();
  for_chunks(
      rows, [=](auto registers, int64_t i, int64_t first,
                int64_t last) __attribute__((always_inline)) {
        using Floats = typename decltype(registers)::Floats;
        constexpr int64_t kColumns = 4 * simd::kLanes;
        const T* const from = data + first * rows.size;
        float* const to = parts + i * rows.size;
        int64_t j = 0;
        for (; j + kColumns <= rows.size; j += kColumns)
          sum_some_columns<Floats, 4>(from + j, last - first, rows.size, kColumns, to + j);
        for (; j < rows.size; j += simd::kLanes)
          sum_some_columns<Floats, 1>(from + j, last - first, rows.size, rows.size - j, to + j);
      });
}

}  // namespace

void add_bias_of_rows(const at::Tensor& y, const at::Tensor& bias) {
  if (y.scalar_type() == at::kFloat)
    add_to_rows<float>(y, bias.contiguous());
  else
    add_to_rows<BFloat16>(y, bias.contiguous());
}

at::Tensor sum_rows(const at::Tensor& x) {
  const at::Tensor dense = x.contiguous();
  const at::Tensor sums = at::empty({x.size(0), x.size(1)}, x.options().dtype(at::kFloat));
  if (x.scalar_type() == at::kFloat)
    sum_each_row<float>(dense, sums.data_ptr<float>());
  else
    sum_each_row<BFloat16>(dense, sums.data_ptr<float>());
  return sum_of_chunks(sums);
}

at::Tensor sum_columns(const at::Tensor& x) {
  const at::Tensor dense = x.contiguous();
  const RowChunks rows = {x.size(0), x.size(1)};
  const at::Tensor parts = at::empty({rows.chunks(), rows.size}, x.options().dtype(at::kFloat));
  if (x.scalar_type() == at::kFloat)
    sum_chunks_of_rows<float>(rows, dense, parts.data_ptr<float>());
  else
    sum_chunks_of_rows<BFloat16>(rows, dense, parts.data_ptr<float>());
  return sum_of_chunks(parts);
}

}  // namespace bv
