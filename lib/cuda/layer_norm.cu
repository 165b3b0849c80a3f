// Layer normalization with the preceding addition: lib/model/kernels/device/layer_norm_pass.h. A
// warp computes a row. A thread computes four adjacent numbers of every 128.
//
// Sums are reproducible bit for bit: the number of blocks, and thus which rows a block sums,
// depends only on the number of rows.
#include <algorithm>

#include "lib/cuda/check.h"
#include "lib/cuda/export.h"
#include "lib/cuda/launch.h"
#include "lib/cuda/scratch.h"
#include "lib/model/kernels/device/layer_norm_pass.h"
#include "lib/util/bf16.h"

namespace bv {
namespace {

constexpr int kWarps = kThreads / kWarp;
constexpr int kPack = 4;                  // numbers
constexpr int64_t kSpan = kWarp * kPack;  // numbers that a warp loads at once
constexpr int64_t kGradientBlocks = 528;  // at most: 4 for each of an H100's multiprocessors
constexpr int kSpansAtOnce = 4;           // whose loads backward issues together
constexpr int kColumns = 32;              // that a block of add_rows() sums

__device__ void store_pack(const Numbers& to, int64_t at, const float (&from)[kPack]) {
  if (to.bf16)
    store<Bf16, kPack>(static_cast<Bf16*>(to.data) + at, from);
  else
    store<float, kPack>(static_cast<float*>(to.data) + at, from);
}

// Loads a thread's numbers of the spans [First, Last) of a row into `to`; `at` is the index of its
// first number in span 0. All loads are issued before the first one is used, so their latencies
// overlap.
template <int First, int Last, int Spans, class Inside>
BV_INLINE void load_spans(const Numbers& from, int64_t at, const Inside& inside,
                          float (&to)[Spans][kPack]) {
  if (from.bf16) {
    Pack<Bf16, kPack> raw[Last - First] = {};
    const Bf16* const begin = static_cast<const Bf16*>(from.data) + at;
    BV_UNROLL
    for (int i = First; i < Last; ++i)
      if (inside(i)) raw[i - First] = pack_at<Bf16, kPack>(begin + i * kSpan);
    BV_UNROLL
    for (int i = First; i < Last; ++i)
      for (int k = 0; k < kPack; ++k) to[i][k] = load(raw[i - First].values[k]);
  } else {
    const float* const begin = static_cast<const float*>(from.data) + at;
    BV_UNROLL
    for (int i = First; i < Last; ++i)
      if (inside(i)) load<float, kPack>(begin + i * kSpan, to[i]);
  }
}

// Spans is the number of spans in a row, rounded up to the next compiled number.
template <int Spans>
__global__ void __launch_bounds__(kThreads) normalise_rows(LayerNormPass pass) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  const int64_t begin = row * pass.size;
  // This thread's first column in span i. Either all of its kPack numbers are in the row, or none.
  const auto column = [=](int i) { return i * kSpan + lane * kPack; };
  const auto inside = [=](int i) { return row < pass.rows && column(i) < pass.size; };
  float x[Spans][kPack] = {}, sum = 0;
  load_spans<0, Spans>(pass.x, begin + lane * kPack, inside, x);
  if (pass.branch.data != nullptr) {
    float branch[Spans][kPack] = {};
    load_spans<0, Spans>(pass.branch, begin + lane * kPack, inside, branch);
    BV_UNROLL
    for (int i = 0; i < Spans; ++i) {
      for (int k = 0; k < kPack; ++k) {
        x[i][k] += branch[i][k];
        if (!pass.sum.bf16) continue;
        Bf16 rounded;
        store(rounded, x[i][k]);
        x[i][k] = load(rounded);
      }
      if (inside(i)) store_pack(pass.sum, begin + column(i), x[i]);
    }
  }
  BV_UNROLL
  for (int i = 0; i < Spans; ++i)
    for (int k = 0; k < kPack; ++k) sum += x[i][k];
  const auto count = static_cast<float>(pass.size);
  const float mean = warp_sum(sum) / count;
  float square = 0;
  BV_UNROLL
  for (int i = 0; i < Spans; ++i) {
    if (!inside(i)) continue;
    for (int k = 0; k < kPack; ++k) square += (x[i][k] - mean) * (x[i][k] - mean);
  }
  const float rstd = 1.0F / sqrtf(warp_sum(square) / count + pass.eps);
  BV_UNROLL
  for (int i = 0; i < Spans; ++i) {
    if (!inside(i)) continue;
    float scale[kPack], bias[kPack], y[kPack];
    load<float, kPack>(pass.scale + column(i), scale);
    load<float, kPack>(pass.bias + column(i), bias);
    for (int k = 0; k < kPack; ++k) y[k] = (x[i][k] - mean) * rstd * scale[k] + bias[k];
    store_pack(pass.y, begin + column(i), y);
  }
  if (lane == 0 && row < pass.rows) {
    pass.moments[2 * row] = mean;
    pass.moments[2 * row + 1] = rstd;
  }
}

// Sums `own` over the warps of a block and writes the sums of the columns from `first` on to `to`
// (size).
__device__ void add_warps(const float (&own)[kPack], int64_t first, int64_t size, float* to) {
  __shared__ float all[kWarps][kSpan];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int k = 0; k < kPack; ++k) all[threadIdx.x / kWarp][lane * kPack + k] = own[k];
  __syncthreads();
  const auto at = static_cast<int64_t>(threadIdx.x);
  if (at < kSpan && first + at < size) {
    float sum = 0;
    for (int warp = 0; warp < kWarps; ++warp) sum += all[warp][at];
    to[first + at] = sum;
  }
  __syncthreads();
}

// Writes dx(i, k) + grad_sum, the gradient of number k in span i, for the spans from First on. `at`
// is the index of the thread's first number in span 0.
template <int First, int Spans, class Inside, class Dx>
BV_INLINE void store_gradient(const LayerNormGradient& pass, int64_t at, const Inside& inside,
                              const Dx& dx) {
  constexpr int kLast = First + kSpansAtOnce < Spans ? First + kSpansAtOnce : Spans;
  float more[Spans][kPack] = {};
  if (pass.grad_sum.data != nullptr) load_spans<First, kLast>(pass.grad_sum, at, inside, more);
  BV_UNROLL
  for (int i = First; i < kLast; ++i) {
    if (!inside(i)) continue;
    for (int k = 0; k < kPack; ++k) more[i][k] += dx(i, k);
    store_pack(pass.dx, at + i * kSpan, more[i]);
    if (pass.dbranch.data != nullptr) store_pack(pass.dbranch, at + i * kSpan, more[i]);
  }
  if constexpr (kLast < Spans) store_gradient<kLast, Spans>(pass, at, inside, dx);
}

// Let z be the normalized row and h = grad * scale. The gradient of a row is
//   dx = rstd (h - mean(h) - z mean(h z)).
// A block writes its sums of grad * z and grad to `parts` (blocks, 2, size).
template <int Spans>
__global__ void __launch_bounds__(kThreads, Spans <= 6 ? 2 : 1)
    gradient_of_rows(LayerNormGradient pass, float* parts) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const auto column = [=](int i) { return i * kSpan + lane * kPack; };
  const auto count = static_cast<float>(pass.size);
  float dscale[Spans][kPack] = {}, dbias[Spans][kPack] = {};
  // All warps of a block make the same number of iterations.
  for (int64_t base = static_cast<int64_t>(blockIdx.x) * kWarps; base < pass.rows;
       base += static_cast<int64_t>(gridDim.x) * kWarps) {
    const int64_t row = base + threadIdx.x / kWarp, begin = row * pass.size;
    const auto inside = [=](int i) { return row < pass.rows && column(i) < pass.size; };
    const float mean = row < pass.rows ? pass.moments[2 * row] : 0;
    const float rstd = row < pass.rows ? pass.moments[2 * row + 1] : 0;
    float z[Spans][kPack] = {}, h[Spans][kPack] = {}, sum = 0, product = 0;
    load_spans<0, Spans>(pass.x, begin + lane * kPack, inside, z);
    load_spans<0, Spans>(pass.grad, begin + lane * kPack, inside, h);
    BV_UNROLL
    for (int i = 0; i < Spans; ++i) {
      if (!inside(i)) continue;
      float scale[kPack];
      load<float, kPack>(pass.scale + column(i), scale);
      for (int k = 0; k < kPack; ++k) {
        z[i][k] = (z[i][k] - mean) * rstd;
        dscale[i][k] += h[i][k] * z[i][k];
        dbias[i][k] += h[i][k];
        h[i][k] *= scale[k];
        sum += h[i][k];
        product += h[i][k] * z[i][k];
      }
    }
    const float offset = warp_sum(sum) / count, slope = warp_sum(product) / count;
    store_gradient<0, Spans>(pass, begin + lane * kPack, inside, [&](int i, int k) {
      return (h[i][k] - offset - z[i][k] * slope) * rstd;
    });
  }
  float* const own = parts + static_cast<int64_t>(blockIdx.x) * 2 * pass.size;
  BV_UNROLL
  for (int i = 0; i < Spans; ++i) {
    add_warps(dscale[i], i * kSpan, pass.size, own);
    add_warps(dbias[i], i * kSpan, pass.size, own + pass.size);
  }
}

// Sums the rows of `parts` (rows, columns) into `sums` (columns).
__global__ void __launch_bounds__(kThreads)
    add_rows(const float* parts, int64_t rows, int64_t columns, float* sums) {
  constexpr int kGroups = kThreads / kColumns;
  __shared__ double all[kGroups][kColumns];
  const int group = static_cast<int>(threadIdx.x) / kColumns,
            place = static_cast<int>(threadIdx.x) % kColumns;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + place;
  double sum = 0;
  if (column < columns)
    for (int64_t row = group; row < rows; row += kGroups) sum += parts[row * columns + column];
  all[group][place] = sum;
  __syncthreads();
  if (group != 0 || column >= columns) return;
  for (int i = 1; i < kGroups; ++i) sum += all[i][place];
  sums[column] = static_cast<float>(sum);
}

int64_t blocks_for(int64_t rows) { return (rows + kWarps - 1) / kWarps; }

template <int Spans>
void start(const LayerNormPass& pass, cudaStream_t stream) {
  launch(normalise_rows<Spans>, blocks_for(pass.rows), stream, pass);
}

template <int Spans>
void start(const LayerNormGradient& pass, cudaStream_t stream,
           int64_t most_blocks = kGradientBlocks) {
  const int64_t blocks = std::min(most_blocks, blocks_for(pass.rows)), columns = 2 * pass.size;
  const Scratch scratch(static_cast<size_t>(blocks * columns) * sizeof(float), stream);
  auto* const parts = static_cast<float*>(scratch.get());
  launch(gradient_of_rows<Spans>, blocks, stream, pass, parts);
  launch(add_rows, (columns + kColumns - 1) / kColumns, stream, parts, blocks, columns,
         pass.dparams);
}

// Kernels are compiled for the span counts of rows with 128, 256, 384, 512, 768, 1024, 1280, 1664
// and 2048 numbers.
template <class Pass>
void start_for_size(const Pass& pass, void* on) {
  if (pass.rows == 0) return;
  auto* const stream = static_cast<cudaStream_t>(on);
  const int64_t spans = (pass.size + kSpan - 1) / kSpan;
  if (spans <= 1)
    start<1>(pass, stream);
  else if (spans <= 2)
    start<2>(pass, stream);
  else if (spans <= 3)
    start<3>(pass, stream);
  else if (spans <= 4)
    start<4>(pass, stream);
  else if (spans <= 6)
    start<6>(pass, stream);
  else if (spans <= 8)
    start<8>(pass, stream);
  else if (spans <= 10)
    start<10>(pass, stream);
  else if (spans <= 13)
    start<13>(pass, stream);
  else
    start<16>(pass, stream);
  check_cuda(cudaGetLastError(), "layer normalization");
}
static_assert(layer_norm_pass_fits(16 * kSpan) && !layer_norm_pass_fits(16 * kSpan + kPack),
              "start_for_size() has a kernel for each size");

}  // namespace
}  // namespace bv

BV_EXPORT void bvtrain_cuda_layer_norm(const bv::LayerNormPass& pass, void* stream) {
  bv::start_for_size(pass, stream);
}
BV_EXPORT void bvtrain_cuda_layer_norm_gradient(const bv::LayerNormGradient& pass, void* stream) {
  bv::start_for_size(pass, stream);
}
