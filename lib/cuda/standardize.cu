// Weight standardization (lib/model/kernels/device/standardize_pass.h): one block per output
// channel. The channel's weights fit in the cache, so only the first pass over them reads from
// memory.
#include "lib/cuda/check.h"
#include "lib/cuda/export.h"
#include "lib/cuda/launch.h"
#include "lib/model/kernels/device/standardize_pass.h"
#include "lib/util/bf16.h"

namespace bv {
namespace standardize_cuda {

// Returns the sum over the block, bit-identical on each thread.
__device__ inline float sum_of_block(float own) {
  constexpr unsigned kWarps = kThreads / kWarp;
  __shared__ float sums[kWarps];
  own = warp_sum(own);
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = own;
  __syncthreads();
  float sum = 0;
  for (unsigned i = 0; i < kWarps; ++i) sum += sums[i];
  __syncthreads();  // the next call overwrites `sums`
  return sum;
}

struct RowStatistics {
  float mean, var;
};

__device__ inline RowStatistics statistics_of(const float* w, int64_t size) {
  float sum = 0, square = 0;
  for (int64_t i = threadIdx.x; i < size; i += kThreads) sum += w[i];
  const auto count = static_cast<float>(size);
  const float mean = sum_of_block(sum) / count;
  for (int64_t i = threadIdx.x; i < size; i += kThreads) square += (w[i] - mean) * (w[i] - mean);
  return {mean, sum_of_block(square) / count};
}

__device__ inline float inverse(float var, StandardizeRule rule) {
  if (rule == StandardizeRule::bit_paper) return static_cast<float>(1 / sqrt(var + kVarEps));
  return static_cast<float>(1 / (sqrt(static_cast<double>(var)) + kStdEps));
}

// Returns -2 times the derivative of inverse() with respect to var.
__device__ inline float inverse_slope(float var, StandardizeRule rule) {
  const double inv = inverse(var, rule);
  if (rule == StandardizeRule::bit_paper) return static_cast<float>(inv * inv * inv);
  return static_cast<float>(inv * inv / sqrt(static_cast<double>(var)));
}

template <class Y>
__global__ void __launch_bounds__(kThreads) standardize_rows(StandardizeForward pass) {
  const int64_t first = blockIdx.x * pass.size;
  const float* w = pass.w + first;
  Y* y = static_cast<Y*>(pass.y) + first;
  const RowStatistics s = statistics_of(w, pass.size);
  const float inv = inverse(s.var, pass.rule);
  for (int64_t i = threadIdx.x; i < pass.size; i += kThreads) store(y[i], (w[i] - s.mean) * inv);
}

// dw = inv (g - mean(g)) - (w - mean) slope mean(g (w - mean))
template <class Y>
__global__ void __launch_bounds__(kThreads) standardize_gradients(StandardizeBackward pass) {
  const int64_t first = blockIdx.x * pass.size;
  const float* w = pass.w + first;
  const Y* grad = static_cast<const Y*>(pass.grad) + first;
  float* dw = pass.dw + first;
  const RowStatistics s = statistics_of(w, pass.size);
  float sum = 0, product = 0;
  for (int64_t i = threadIdx.x; i < pass.size; i += kThreads) {
    const float g = load(grad[i]);
    sum += g;
    product += g * (w[i] - s.mean);
  }
  const auto count = static_cast<float>(pass.size);
  const float mean_grad = sum_of_block(sum) / count, inv = inverse(s.var, pass.rule);
  const float factor = inverse_slope(s.var, pass.rule) * (sum_of_block(product) / count);
  for (int64_t i = threadIdx.x; i < pass.size; i += kThreads)
    dw[i] = (load(grad[i]) - mean_grad) * inv - (w[i] - s.mean) * factor;
}

}  // namespace standardize_cuda
}  // namespace bv

BV_EXPORT void bvtrain_cuda_standardize(const bv::StandardizeForward& pass, void* on) {
  using namespace bv::standardize_cuda;
  auto* const kernel = pass.bf16 ? standardize_rows<bv::Bf16> : standardize_rows<float>;
  bv::launch(kernel, pass.rows, static_cast<cudaStream_t>(on), pass);
  bv::check_cuda(cudaGetLastError(), "weight standardization");
}

BV_EXPORT void bvtrain_cuda_standardize_gradient(const bv::StandardizeBackward& pass, void* on) {
  using namespace bv::standardize_cuda;
  auto* const kernel = pass.bf16 ? standardize_gradients<bv::Bf16> : standardize_gradients<float>;
  bv::launch(kernel, pass.rows, static_cast<cudaStream_t>(on), pass);
  bv::check_cuda(cudaGetLastError(), "the gradient of weight standardization");
}
