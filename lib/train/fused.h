// The fused optimizer pass: the whole chain of section 6, the sums of squares and the averaged
// weights in one sweep over memory.
//
// Work is cut into fixed chunks whose partial sums are added in order, so the result does not
// depend on the number of threads. Every range is a multiple of kBlock elements, so that the inner
// loops have constant trip counts, which GCC vectorises.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/model/simd.h"
#include "lib/train/optimizer.h"

namespace bv {

inline constexpr int64_t kBlock = FlatParams::kAlign;
inline constexpr int64_t kChunk = 16384;  // elements; 64 KiB a buffer: a few of them fit in L2

using Block = std::array<float, kBlock>;

// The sum of squares of n elements, a multiple of kBlock; independent of the number of threads.
double square_sum(const float* values, int64_t n);

// bfloat16 in memory.
struct Bf16 {
  uint16_t bits;
};
[[gnu::always_inline]] inline float load(const float& x) { return x; }
[[gnu::always_inline]] inline float load(const Bf16& x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}
[[gnu::always_inline]] inline void store(float& at, float x) { at = x; }
[[gnu::always_inline]] inline void store(Bf16& at, float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t nearest_even = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  at.bits = static_cast<uint16_t>(x != x ? 0x7fc0u : nearest_even);
}

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

// What one chunk is updated with: its places in buffers of state, the parameters and the gradients.
struct FusedChunk {
  int64_t begin, end, data, grad;
  bool counts;
  float lr_mult, weight_decay, schedule;
};

// `Rule` has block(x, p, u, at): from the gradients x of kBlock elements and the parameters p to
// the updates u, with its state at offset `at`; always_inline.
template <class Rule>
[[gnu::always_inline]] inline UpdateSums fused_chunk(const Rule& rule, const FusedChunk& chunk,
                                                     const StepScalars& scalars, const float* grad,
                                                     float* param, float* ema) {
  const float lr = scalars.lr, lr_mult = chunk.lr_mult, wd = chunk.weight_decay;
  const float schedule = chunk.schedule, decay = scalars.ema_decay, rest = 1.0F - decay;
  const float norm = scalars.grad_norm, limit = scalars.clip_norm;
  const bool clip = limit > 0 && !(norm < limit);
  LaneSum params, updates;
  grad += chunk.grad - chunk.begin;
  param += chunk.data - chunk.begin;
  for (int64_t at = chunk.begin; at < chunk.end; at += kBlock) {
    alignas(64) Block x, u, p;
    const float* g = grad + at;
    float* target = param + at;
    if (clip) {
      for (int64_t i = 0; i < kBlock; ++i) x[i] = g[i] / norm * limit;
    } else {
      for (int64_t i = 0; i < kBlock; ++i) x[i] = g[i];
    }
    rule.block(x, target, u, at);
    for (int64_t i = 0; i < kBlock; ++i) {
      u[i] = -((u[i] * lr * lr_mult + wd * target[i]) * schedule);
      p[i] = target[i] + u[i];
    }
    for (int64_t i = 0; i < kBlock; ++i) target[i] = p[i];
    params.add(p);
    updates.add(u);
    if (ema) {
      float* e = ema + at;
#pragma GCC ivdep
      for (int64_t i = 0; i < kBlock; ++i) e[i] = decay * e[i] + rest * p[i];
    }
  }
  return {.params = params.total(), .updates = updates.total()};
}

template <class Rule>
UpdateSums fused_update(const Rule& rule, const FlatParams& params,
                        std::span<const UpdateRange> ranges, const StepScalars& scalars,
                        const at::Tensor* ema) {
  std::vector<FusedChunk> chunks;
  for (const UpdateRange& range : ranges) {
    for (int64_t begin = range.begin; begin < range.end; begin += kChunk) {
      const int64_t from = begin - range.begin;
      chunks.push_back({.begin = begin,
                        .end = std::min(begin + kChunk, range.end),
                        .data = range.data + from,
                        .grad = range.grad + from,
                        .counts = range.counts,
                        .lr_mult = range.lr_mult,
                        .weight_decay = range.weight_decay,
                        .schedule = scalars.schedules.at(static_cast<size_t>(range.schedule))});
    }
  }
  const float* grad = params.grads().const_data_ptr<float>();
  float* param = params.data().mutable_data_ptr<float>();
  float* average = ema ? ema->mutable_data_ptr<float>() : nullptr;
  std::vector<UpdateSums> sums(chunks.size());
  at::parallel_for(0, static_cast<int64_t>(chunks.size()), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      simd::dispatch([&]() __attribute__((always_inline)) {
        sums[i] = fused_chunk(rule, chunks[i], scalars, grad, param, average);
      });
    }
  });
  UpdateSums total;
  for (size_t i = 0; i < sums.size(); ++i) {
    if (!chunks[i].counts) continue;
    total.params += sums[i].params;
    total.updates += sums[i].updates;
  }
  return total;
}

}  // namespace bv
