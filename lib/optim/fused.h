// The fused optimizer pass: the whole chain of section 6, the sums of squares and the averaged
// weights in one sweep over memory. This is the CPU's; the CUDA plug-in has the same (kernels.h).
//
// Work is cut into fixed chunks whose partial sums are added in order, so the result does not
// depend on the number of threads. Every range is a multiple of kBlock elements, so that the inner
// loops have constant trip counts, which GCC vectorises.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "lib/device/cuda.h"
#include "lib/device/lanes.h"
#include "lib/optim/kernels.h"
#include "lib/optim/optimizer.h"

namespace bv {

inline constexpr int64_t kBlock = FlatParams::kAlign;
inline constexpr int64_t kChunk = 16384;  // elements; 64 KiB a buffer: a few of them fit in L2

using Block = Lanes<kBlock>;

// The sum of squares of a flat float32 tensor, a multiple of kBlock elements, on its device: ()
// float64. Independent of the number of threads.
at::Tensor square_sum(const at::Tensor& flat);

const CudaKernels& cuda_kernels();  // of the plug-in, which is open

// Sums of squares: float32 lanes over a few thousand elements, then double.
class LaneSum {
 public:
  [[gnu::always_inline]] void add(const Block& x) {
    for (int64_t i = 0; i < kBlock; ++i) lanes_[i] += x[i] * x[i];
    if (++blocks_ == 64) flush();
  }
  [[gnu::always_inline]] double total() {
    flush();
    double sum = 0;
    for (int64_t i = 0; i < 8; ++i) sum += total_[i];
    return sum;
  }

 private:
  [[gnu::always_inline]] void flush() {
    for (int64_t k = 0; k < kBlock; k += 8) {
      for (int64_t i = 0; i < 8; ++i) total_[i] += lanes_[k + i];
    }
    lanes_ = {};
    blocks_ = 0;
  }
  alignas(64) Block lanes_{};
  alignas(64) std::array<double, 8> total_{};
  int blocks_ = 0;
};

struct ChunkSums {
  double params = 0, updates = 0;
};

template <class Rule>
[[gnu::always_inline]] inline ChunkSums fused_chunk(const Rule& rule, const FusedChunk& chunk,
                                                    const FusedScalars& scalars, const float* grad,
                                                    float* param, float* ema) {
  LaneSum params, updates;
  grad += chunk.grad - chunk.begin;
  param += chunk.data - chunk.begin;
  for (int64_t at = chunk.begin; at < chunk.end; at += kBlock) {
    alignas(64) Block u, p;
    fused_block<kBlock>(rule, chunk, scalars, at, grad + at, param + at, ema, u, p);
    params.add(p);
    updates.add(u);
  }
  return {.params = params.total(), .updates = updates.total()};
}

// At most `longest` elements each.
std::vector<FusedChunk> fused_chunks(std::span<const UpdateRange> ranges,
                                     const StepScalars& scalars, int64_t longest);
// `sums` is where the result goes.
FusedArguments fused_arguments(const FlatParams& params, const std::vector<FusedChunk>& chunks,
                               const StepScalars& scalars, const at::Tensor* ema,
                               const at::Tensor& sums);
// Adds up the chunks that count, in order.
void total_sums(const std::vector<FusedChunk>& chunks, const std::vector<ChunkSums>& sums,
                double* total);

// See Optimizer::update().
template <class Rule>
at::Tensor fused_update(const Rule& rule, const FlatParams& params,
                        std::span<const UpdateRange> ranges, const StepScalars& scalars,
                        const at::Tensor* ema) {
  const bool cpu = params.data().is_cpu();
  const at::Tensor total = at::empty({2}, params.data().options().dtype(at::kDouble));
  const auto chunks = fused_chunks(ranges, scalars, cpu ? kChunk : INT64_MAX);
  const FusedArguments all = fused_arguments(params, chunks, scalars, ema, total);
  if (!cpu) {
    if constexpr (std::is_base_of_v<UpdateKernel<Rule>, CudaKernels>) {
      const UpdateKernel<Rule>& kernel = cuda_kernels();
      kernel.update(rule, all, cuda_stream(params.data().device()));
    } else {
      throw Error(Exit::usage, "", "this optimizer has no CUDA kernel (lib/optim/kernels.h)");
    }
    return total;
  }
  std::vector<ChunkSums> sums(chunks.size());
  at::parallel_for(0, static_cast<int64_t>(chunks.size()), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      simd::dispatch([&]() __attribute__((always_inline)) {
        sums[i] = fused_chunk(rule, chunks[i], all.scalars, all.grad, all.param, all.ema);
      });
    }
  });
  total_sums(chunks, sums, all.sums);
  return total;
}

}  // namespace bv
