#include "lib/model/kernels/row_chunks.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>

namespace bv {

at::Tensor sum_of_chunks(const at::Tensor& parts) {
  constexpr int64_t kColumns = 64;  // at once
  const int64_t columns = parts.numel() / parts.size(0);
  const at::Tensor sums = at::empty(parts.sizes().slice(1), parts.options());
  const float* const from = parts.const_data_ptr<float>();
  float* const to = sums.data_ptr<float>();
  at::parallel_for(0, at::divup(columns, kColumns), 4, [&](int64_t begin, int64_t end) {
    simd::dispatch([&]() __attribute__((always_inline)) {
      for (int64_t first = begin * kColumns; first < end * kColumns; first += kColumns) {
        const int64_t count = std::min(kColumns, columns - first);
        std::array<double, kColumns> sum{};
        for (int64_t i = 0; i < parts.size(0); ++i) {
          const float* const row = from + i * columns + first;
          for (int64_t j = 0; j < count; ++j) sum[j] += row[j];
        }
        for (int64_t j = 0; j < count; ++j) to[first + j] = static_cast<float>(sum[j]);
      }
    });
  });
  return sums;
}

}  // namespace bv
