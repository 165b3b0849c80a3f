// The kernels for lib/model/kernels/device/relu_avg_pool_pass.h. A thread computes 16 bytes of one
// output.
#include "lib/cuda/check.h"
#include "lib/cuda/export.h"
#include "lib/cuda/launch.h"
#include "lib/model/kernels/device/relu_avg_pool_pass.h"

namespace bv {
namespace {

// What a thread computes: the index of its first channel after pooling and in the four pixels of
// the window.
struct PoolWindow {
  bool inside = false;
  int64_t pooled = 0, wide[4] = {};
};

template <int N>
__device__ PoolWindow window_of_thread(const ReluAvgPoolPass& pass) {
  const int64_t packs = pass.c / N, rows = pass.h / 2, columns = pass.w / 2;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, output = i / packs;
  PoolWindow window;
  window.inside = output < pass.n * rows * columns;
  const int64_t channel = i % packs * N, column = output % columns, row = output / columns % rows,
                image = output / columns / rows;
  window.pooled = output * pass.c + channel;
  const int64_t first = ((image * pass.h + 2 * row) * pass.w + 2 * column) * pass.c + channel;
  for (int p = 0; p < 4; ++p) window.wide[p] = first + (p / 2 * pass.w + p % 2) * pass.c;
  return window;
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads) pool(ReluAvgPoolPass pass) {
  const PoolWindow window = window_of_thread<N>(pass);
  if (!window.inside) return;
  float sum[N] = {};
  Pack<uint8_t, N> alive = {};
  for (int p = 0; p < 4; ++p) {
    float x[N];
    load<T, N>(static_cast<const T*>(pass.wide.data) + window.wide[p], x);
    for (int k = 0; k < N; ++k) {
      if (x[k] <= 0) continue;
      sum[k] += x[k];
      alive.values[k] |= static_cast<uint8_t>(1 << p);
    }
  }
  for (int k = 0; k < N; ++k) sum[k] *= 0.25F;
  store<T, N>(static_cast<T*>(pass.pooled.data) + window.pooled, sum);
  *pack_at<uint8_t, N>(pass.alive + window.pooled) = alive;
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads) unpool(ReluAvgPoolPass pass) {
  const PoolWindow window = window_of_thread<N>(pass);
  if (!window.inside) return;
  float grad[N];
  load<T, N>(static_cast<const T*>(pass.pooled.data) + window.pooled, grad);
  const Pack<uint8_t, N> alive =
      pack_at<uint8_t, N>(static_cast<const uint8_t*>(pass.alive + window.pooled));
  for (int p = 0; p < 4; ++p) {
    float kept[N];
    for (int k = 0; k < N; ++k) kept[k] = alive.values[k] >> p & 1 ? 0.25F * grad[k] : 0.0F;
    store<T, N>(static_cast<T*>(pass.wide.data) + window.wide[p], kept);
  }
}

template <class T>
constexpr int kPack = 16 / sizeof(T);

void start(void (*floats)(ReluAvgPoolPass), void (*bf16)(ReluAvgPoolPass),
           const ReluAvgPoolPass& pass, void* stream) {
  const int packs = pass.pooled.bf16 ? kPack<Bf16> : kPack<float>;
  const int64_t threads = pass.n * (pass.h / 2) * (pass.w / 2) * (pass.c / packs);
  if (threads == 0) return;
  launch(pass.pooled.bf16 ? bf16 : floats, (threads + kThreads - 1) / kThreads,
         static_cast<cudaStream_t>(stream), pass);
  check_cuda(cudaGetLastError(), "ReLU and average pool");
}

}  // namespace
}  // namespace bv

BV_EXPORT void bvtrain_cuda_relu_avg_pool(const bv::ReluAvgPoolPass& pass, void* stream) {
  bv::start(bv::pool<float, bv::kPack<float>>, bv::pool<bv::Bf16, bv::kPack<bv::Bf16>>, pass,
            stream);
}
BV_EXPORT void bvtrain_cuda_relu_avg_pool_gradient(const bv::ReluAvgPoolPass& pass, void* stream) {
  bv::start(bv::unpool<float, bv::kPack<float>>, bv::unpool<bv::Bf16, bv::kPack<bv::Bf16>>, pass,
            stream);
}
