// Loops over the rows of a matrix whose results do not depend on the number of threads: each chunk
// of rows has its own partial sums.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

#include "lib/device/float_lanes.h"

namespace bv {

// `count` rows of `size` values, in chunks.
struct RowChunks {
  // Elements of a partial sum in float32: few enough for its precision and for the cache.
  static constexpr int64_t kElements = 32768;

  int64_t count, size;

  int64_t of_chunk() const { return std::max<int64_t>(1, kElements / size); }
  int64_t chunks() const { return (count + of_chunk() - 1) / of_chunk(); }
};

// Calls f(registers, chunk, first, last) with the rows of each chunk, within simd::dispatch().
template <class F>
void for_chunks(const RowChunks& rows, const F& f) {
  at::parallel_for(0, rows.chunks(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i * rows.of_chunk();
      const int64_t last = std::min(rows.count, first + rows.of_chunk());
      simd::dispatch([&](auto registers)
                         __attribute__((always_inline)) { f(registers, i, first, last); });
    }
  });
}

// Returns the sum of partial sums over their first dimension: (chunks, ...) float32, contiguous.
// It adds in float64.
at::Tensor sum_of_chunks(const at::Tensor& parts);

}  // namespace bv
