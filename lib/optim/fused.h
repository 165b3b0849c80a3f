// The fused optimizer pass: everything that Optimizer::update() does, in one sweep over memory. The
// arithmetic is in lib/optim/rules/. This file runs it on the CPU; on CUDA it calls the plug-in
// (lib/optim/kernels.h), which has the same pass.
//
// Work is divided into chunks of fixed size whose partial sums are added in order, so results do
// not depend on the number of threads. The size of every range is a multiple of kBlock: the inner
// loops have constant trip counts, which GCC vectorizes.
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
#include "lib/device/float_lanes.h"
#include "lib/optim/kernels.h"
#include "lib/optim/optimizer.h"

namespace bv {

inline constexpr int64_t kBlock = FlatParams::kAlign;
inline constexpr int64_t kChunk = 16384;  // elements: 64 KiB per buffer, so that all fit in L2

using Block = Lanes<kBlock>;

// Returns the sum of squares of a flat float32 tensor as () float64 on the same device. Its size
// must be a multiple of kBlock elements.
at::Tensor square_sum(const at::Tensor& flat);

// Clips a gradient in place, as the fused pass does. Optimizers that change gradients before that
// pass call it, and then disable clipping in the pass.
void clip_to_norm(const at::Tensor& grad, const StepScalars& scalars);

// Returns the kernels of the CUDA plug-in, which must have been opened (lib/device/cuda.h).
const CudaKernels& cuda_kernels();

// Accumulates a sum of squares: in float32 lanes over a few thousand elements, then in double.
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

// Sums of squares of one chunk.
struct ChunkSums {
  double params = 0, updates = 0;
};

// Updates one chunk of the buffers of `all`. `norm` is that of the gradients.
template <class Rule>
[[gnu::always_inline]] inline ChunkSums fused_chunk(const Rule& rule, const FusedChunk& chunk,
                                                    const FusedArguments& all, float norm) {
  LaneSum params, updates;
  const FusedFactors factors = fused_factors(chunk, all.scalars, all.numbers, norm);
  const float* grad = all.grad + (chunk.grad - chunk.begin);
  float* param = all.param + (chunk.data - chunk.begin);
  for (int64_t at = chunk.begin; at < chunk.end; at += kBlock) {
    alignas(64) Block u, p;
    fused_block<kBlock>(rule, factors, at, grad + at, param + at, all.ema, u, p);
    params.add(p);
    updates.add(u);
  }
  return {.params = params.total(), .updates = updates.total()};
}

// Divides the ranges into chunks of at most `longest` elements.
std::vector<FusedChunk> fused_chunks(std::span<const UpdateRange> ranges, int64_t longest);
// Collects the pointers and scalars of a pass that writes its result to `sums` ((2) float64).
FusedArguments fused_arguments(const FlatParams& params, const std::vector<FusedChunk>& chunks,
                               const StepScalars& scalars, const at::Tensor* ema,
                               const at::Tensor& sums);
// Sums the chunks that count, in order, into total[0] (parameters) and total[1] (updates).
void total_sums(const std::vector<FusedChunk>& chunks, const std::vector<ChunkSums>& sums,
                double* total);

// Implements Optimizer::update() for a rule (lib/optim/rules/rule.h).
template <class Rule>
at::Tensor fused_update(const Rule& rule, const FlatParams& params,
                        std::span<const UpdateRange> ranges, const StepScalars& scalars,
                        const at::Tensor* ema) {
  const bool cpu = params.data().is_cpu();
  const at::Tensor total = at::empty({2}, params.data().options().dtype(at::kDouble));
  const auto chunks = fused_chunks(ranges, cpu ? kChunk : INT64_MAX);
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
  const Rule own = in_step(rule, all.numbers);
  const float norm = all.grad_squares ? static_cast<float>(std::sqrt(*all.grad_squares)) : 0;
  std::vector<ChunkSums> sums(chunks.size());
  at::parallel_for(0, static_cast<int64_t>(chunks.size()), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      simd::dispatch([&]() __attribute__((always_inline)) {
        sums[i] = fused_chunk(own, chunks[i], all, norm);
      });
    }
  });
  total_sums(chunks, sums, all.sums);
  return total;
}

}  // namespace bv
