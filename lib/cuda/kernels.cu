// CUDA kernels: the fused optimizer pass and sums of squares (lib/optim/kernels.h), dropout masks
// (lib/model/dropout_mask.h), and the pass over images (lib/input/image/image_pass.h). The
// arithmetic is in headers that are also compiled for the CPU; this file only assigns elements to
// threads.
//
// Sums are reproducible: each thread sums its elements, each block sums its threads in a fixed
// tree, and one more block sums the blocks' results in a fixed order.
#include <algorithm>

#include "lib/cuda/check.h"
#include "lib/cuda/export.h"
#include "lib/cuda/launch.h"
#include "lib/cuda/scratch.h"
#include "lib/input/image/image_pass.h"
#include "lib/model/dropout_mask.h"
#include "lib/optim/kernels.h"

namespace bv {
namespace {

constexpr int64_t kMostBlocks = 4096;
constexpr int64_t kElements = 8;  // minimum per thread, before more blocks are used

struct BlockSums {
  double params, updates;
  __device__ BlockSums& operator+=(const BlockSums& other) {
    params += other.params;
    updates += other.updates;
    return *this;
  }
};
// Since compute capability 8.0, every device provides 48 KiB of shared memory per block by default.
static_assert(sizeof(BlockSums) * kThreads <= 48 * 1024, "the shared memory of block_sum()");
static_assert(kThreads <= 1024 && (kThreads & (kThreads - 1)) == 0, "block_sum() halves it");

int64_t blocks_for(int64_t elements) {
  return std::clamp<int64_t>(elements / (kThreads * kElements), 1, kMostBlocks);
}

// Returns the sum over the block. Valid on thread 0 only.
__device__ BlockSums block_sum(BlockSums own) {
  __shared__ BlockSums all[kThreads];
  all[threadIdx.x] = own;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) all[threadIdx.x] += all[threadIdx.x + half];
    __syncthreads();
  }
  return all[0];
}

template <class Rule>
__global__ void __launch_bounds__(kThreads)
    update_range(Rule rule_of_run, FusedChunk range, FusedScalars scalars, FusedNumbers numbers,
                 const double* grad_squares, const float* grad, float* param, float* ema,
                 BlockSums* sums) {
  const Rule rule = in_step(rule_of_run, numbers);
  const float norm = grad_squares ? static_cast<float>(sqrt(*grad_squares)) : 0;
  const FusedFactors factors = fused_factors(range, scalars, numbers, norm);
  grad += range.grad - range.begin;
  param += range.data - range.begin;
  BlockSums own = {0, 0};
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t at = range.begin + blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x;
       at < range.end; at += stride) {
    Lanes<1> u, p;
    fused_block<1>(rule, factors, at, grad + at, param + at, ema, u, p);
    own += {static_cast<double>(p[0]) * p[0], static_cast<double>(u[0]) * u[0]};
  }
  own = block_sum(own);
  if (threadIdx.x == 0) sums[blockIdx.x] = range.counts ? own : BlockSums{0, 0};
}

__global__ void __launch_bounds__(kThreads)
    square_blocks(const float* values, int64_t n, BlockSums* sums) {
  BlockSums own = {0, 0};
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t at = blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x; at < n; at += stride)
    own.params += static_cast<double>(values[at]) * values[at];
  own = block_sum(own);
  if (threadIdx.x == 0) sums[blockIdx.x] = own;
}

// Runs as one block. Sums the results of `count` blocks: result[0] is the sum of the first members
// and, with `both`, result[1] that of the second ones.
__global__ void __launch_bounds__(kThreads)
    add_up(const BlockSums* sums, int64_t count, double* result, bool both) {
  BlockSums own = {0, 0};
  for (int64_t i = threadIdx.x; i < count; i += kThreads) own += sums[i];
  own = block_sum(own);
  if (threadIdx.x != 0) return;
  result[0] = own.params;
  if (both) result[1] = own.updates;
}

__global__ void __launch_bounds__(kThreads)
    fill_dropout(DropoutMask mask, const int64_t* step, float* out) {
  if (step) mask.step = static_cast<uint64_t>(*step);
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t block =
           mask.first_block() + blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x;
       block < mask.last_block(); block += stride)
    mask.fill(block, out);
}

// A block computes kThreads * kElements values of one image; `parts` blocks compute an image.
__global__ void __launch_bounds__(kThreads)
    compute_images(ImagePass pass, const float* mixup, int64_t parts, const uint8_t* bytes,
                   const uint8_t* before, float* out) {
  if (mixup) {
    pass.keep = mixup[0];
    pass.other = mixup[1];
  }
  const int64_t image = blockIdx.x / parts, part = blockIdx.x % parts;
  const uint8_t* own = bytes + image * pass.width;
  const uint8_t* previous = image == 0 ? before : own - pass.width;
  float* to = out + image * pass.width;
  const int64_t begin = part * kThreads * kElements;
  for (int64_t k = 0; k < kElements; ++k) {
    const int64_t at = begin + k * kThreads + threadIdx.x;
    if (at < pass.width) to[at] = pass.value(own, previous, at);
  }
}

template <class Rule>
void update(const Rule& rule, const FusedArguments& all, void* on) {
  auto* const stream = static_cast<cudaStream_t>(on);
  int64_t blocks = 0;
  for (int64_t i = 0; i < all.count; ++i)
    blocks += blocks_for(all.ranges[i].end - all.ranges[i].begin);
  const Scratch scratch(std::max<int64_t>(blocks, 1) * sizeof(BlockSums), on);
  auto* const sums = static_cast<BlockSums*>(scratch.get());
  int64_t done = 0;
  for (int64_t i = 0; i < all.count; ++i) {
    const FusedChunk& range = all.ranges[i];
    const int64_t own = blocks_for(range.end - range.begin);
    launch(update_range<Rule>, own, stream, rule, range, all.scalars, all.numbers, all.grad_squares,
           all.grad, all.param, all.ema, sums + done);
    done += own;
  }
  launch(add_up, 1, stream, sums, blocks, all.sums, /*both=*/true);
  check_cuda(cudaGetLastError(), "the optimizer's kernel");
}

void square_sum(const float* values, int64_t n, double* sum, void* on) {
  auto* const stream = static_cast<cudaStream_t>(on);
  const int64_t blocks = blocks_for(n);
  const Scratch scratch(blocks * sizeof(BlockSums), on);
  auto* const sums = static_cast<BlockSums*>(scratch.get());
  launch(square_blocks, blocks, stream, values, n, sums);
  launch(add_up, 1, stream, sums, blocks, sum, /*both=*/false);
  check_cuda(cudaGetLastError(), "a sum of squares");
}

template <class... Rules>
void fill(UpdateKernels<Rules...>& table) {
  ((static_cast<UpdateKernel<Rules>&>(table).update = &update<Rules>), ...);
}

CudaKernels make_kernels() {
  CudaKernels table;
  fill(table);
  table.square_sum = &square_sum;
  return table;
}

}  // namespace
}  // namespace bv

BV_EXPORT bv::CudaKernels bvtrain_cuda_kernels;
bv::CudaKernels bvtrain_cuda_kernels = bv::make_kernels();

BV_EXPORT void bvtrain_cuda_dropout(const bv::DropoutMask& mask, const int64_t* step, float* out,
                                    void* on) {
  auto* const stream = static_cast<cudaStream_t>(on);
  const int64_t philox_blocks = mask.last_block() - mask.first_block();
  if (philox_blocks <= 0) return;
  const int64_t blocks = std::clamp<int64_t>(philox_blocks / bv::kThreads + 1, 1, bv::kMostBlocks);
  bv::launch(bv::fill_dropout, blocks, stream, mask, step, out);
  bv::check_cuda(cudaGetLastError(), "a dropout mask");
}

BV_EXPORT void bvtrain_cuda_images(const bv::ImagePass& pass, const float* mixup,
                                   const uint8_t* bytes, const uint8_t* before, float* out,
                                   void* on) {
  if (pass.images == 0 || pass.width == 0) return;
  constexpr int64_t kPerBlock = bv::kThreads * bv::kElements;
  const int64_t parts = (pass.width + kPerBlock - 1) / kPerBlock;
  bv::launch(bv::compute_images, pass.images * parts, static_cast<cudaStream_t>(on), pass, mixup,
             parts, bytes, before, out);
  bv::check_cuda(cudaGetLastError(), "the pass over images");
}
