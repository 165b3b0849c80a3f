#include "lib/train/fused.h"

namespace bv {

double square_sum(const float* values, int64_t n) {
  const int64_t chunks = (n + kChunk - 1) / kChunk;
  std::vector<double> sums(chunks);
  at::parallel_for(0, chunks, 1, [&](int64_t first, int64_t last) {
    for (int64_t chunk = first; chunk < last; ++chunk) {
      simd::dispatch([&]() __attribute__((always_inline)) {
        LaneSum sum;
        const int64_t end = std::min((chunk + 1) * kChunk, n);
        for (int64_t at = chunk * kChunk; at < end; at += kBlock) {
          alignas(64) Block x;
          for (int64_t i = 0; i < kBlock; ++i) x[i] = values[at + i];
          sum.add(x);
        }
        sums[chunk] = sum.total();
      });
    }
  });
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

}  // namespace bv
