#include "lib/optim/fused.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>

namespace bv {

const CudaKernels& cuda_kernels() {
  static const auto* kernels = static_cast<const CudaKernels*>(cuda_symbol("bvtrain_cuda_kernels"));
  return *kernels;
}

at::Tensor square_sum(const at::Tensor& flat) {
  const at::Tensor result = at::empty({}, flat.options().dtype(at::kDouble));
  const float* values = flat.const_data_ptr<float>();
  const int64_t n = flat.numel();
  auto* total = result.mutable_data_ptr<double>();
  if (!flat.is_cpu()) {
    cuda_kernels().square_sum(values, n, total, cuda_stream(flat.device()));
    return result;
  }
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
  *total = 0;
  for (double sum : sums) *total += sum;
  return result;
}

void clip_to_norm(const at::Tensor& grad, const StepScalars& scalars) {
  if (scalars.clip_norm <= 0) return;
  if (grad.is_cpu()) {
    const auto norm = static_cast<float>(std::sqrt(*scalars.grad_squares.const_data_ptr<double>()));
    if (!(norm < scalars.clip_norm)) grad.div_(norm).mul_(scalars.clip_norm);
    return;
  }
  const at::Tensor norm = scalars.grad_squares.sqrt().to(at::kFloat);
  grad.copy_(at::where(norm < scalars.clip_norm, grad, grad / norm * scalars.clip_norm));
}

std::vector<FusedChunk> fused_chunks(std::span<const UpdateRange> ranges, int64_t longest) {
  std::vector<FusedChunk> chunks;
  for (const UpdateRange& range : ranges) {
    for (int64_t begin = range.begin; begin < range.end;) {
      const int64_t from = begin - range.begin, size = std::min(longest, range.end - begin);
      chunks.push_back({.begin = begin,
                        .end = begin + size,
                        .data = range.data + from,
                        .grad = range.grad + from,
                        .counts = range.counts,
                        .lr_mult = range.lr_mult,
                        .weight_decay = range.weight_decay,
                        .schedule = range.schedule});
      begin += size;
    }
  }
  return chunks;
}

FusedArguments fused_arguments(const FlatParams& params, const std::vector<FusedChunk>& chunks,
                               const StepScalars& scalars, const at::Tensor* ema,
                               const at::Tensor& sums) {
  FusedArguments all{.grad = params.grads().const_data_ptr<float>(),
                     .param = params.data().mutable_data_ptr<float>(),
                     .ema = ema ? ema->mutable_data_ptr<float>() : nullptr,
                     .grad_squares = nullptr,
                     .scalars = {scalars.lr, scalars.clip_norm},
                     .numbers = {scalars.numbers.const_data_ptr<float>()},
                     .ranges = chunks.data(),
                     .count = std::ssize(chunks),
                     .sums = sums.mutable_data_ptr<double>()};
  const int64_t schedules = scalars.numbers.numel() - FusedNumbers::kSchedules;
  for (const FusedChunk& chunk : chunks) check(chunk.schedule < schedules, "a missing schedule");
  if (scalars.clip_norm > 0) all.grad_squares = scalars.grad_squares.const_data_ptr<double>();
  return all;
}

void total_sums(const std::vector<FusedChunk>& chunks, const std::vector<ChunkSums>& sums,
                double* total) {
  total[0] = total[1] = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    if (!chunks[i].counts) continue;
    total[0] += sums[i].params;
    total[1] += sums[i].updates;
  }
}

}  // namespace bv
