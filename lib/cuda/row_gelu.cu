// The kernels for lib/model/kernels/device/row_gelu_pass.h. A warp computes a row.
#include "lib/cuda/check.h"
#include "lib/cuda/export.h"
#include "lib/cuda/launch.h"
#include "lib/model/kernels/device/row_gelu_pass.h"

namespace bv {
namespace {

constexpr int kWarps = kThreads / kWarp;
constexpr int kPack = 8;  // numbers that a thread loads at once

// 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2 u)) with u = sqrt(2 / pi) (x + 0.044715 x^3).
constexpr float kTwoRoots = 1.5957691216F;  // 2 sqrt(2 / pi)
constexpr float kCubic = 0.044715F;
__device__ float gate(float x) {
  return 1.0F / (1.0F + expf(-kTwoRoots * x * (1.0F + kCubic * x * x)));
}

__device__ int64_t row_of_thread() {
  return static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
}
__device__ int64_t first_of_thread() { return threadIdx.x % kWarp * kPack; }

__global__ void __launch_bounds__(kThreads) gelu_of_rows(RowGeluPass pass) {
  const int64_t row = row_of_thread(), begin = row * pass.size;
  if (row >= pass.rows) return;
  const float bias = pass.bias[row % pass.period];
  for (int64_t k = first_of_thread(); k < pass.size; k += kWarp * kPack) {
    float x[kPack];
    load<Bf16, kPack>(pass.x + begin + k, x);
    for (int i = 0; i < kPack; ++i) x[i] = (x[i] + bias) * gate(x[i] + bias);
    store<Bf16, kPack>(pass.y + begin + k, x);
  }
}

__global__ void __launch_bounds__(kThreads) gelu_gradient_of_rows(RowGeluGradient pass) {
  const int64_t row = row_of_thread(), begin = row * pass.size;
  float sum = 0;
  if (row < pass.rows) {
    const float bias = pass.bias[row % pass.period];
    for (int64_t k = first_of_thread(); k < pass.size; k += kWarp * kPack) {
      float x[kPack], grad[kPack];
      load<Bf16, kPack>(pass.x + begin + k, x);
      load<Bf16, kPack>(pass.grad + begin + k, grad);
      for (int i = 0; i < kPack; ++i) {
        const float value = x[i] + bias, g = gate(value);
        const float slope = kTwoRoots * (1.0F + 3 * kCubic * value * value);  // of 2 u
        grad[i] *= g + value * g * (1.0F - g) * slope;
        sum += grad[i];
      }
      store<Bf16, kPack>(pass.dx + begin + k, grad);
    }
  }
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0 && row < pass.rows) pass.sums[row] = sum;
}

template <class Pass>
void start(void (*kernel)(Pass), const Pass& pass, void* stream) {
  if (pass.rows == 0) return;
  launch(kernel, (pass.rows + kWarps - 1) / kWarps, static_cast<cudaStream_t>(stream), pass);
  check_cuda(cudaGetLastError(), "GELU of rows");
}

}  // namespace
}  // namespace bv

BV_EXPORT void bvtrain_cuda_row_gelu(const bv::RowGeluPass& pass, void* stream) {
  bv::start(bv::gelu_of_rows, pass, stream);
}
BV_EXPORT void bvtrain_cuda_row_gelu_gradient(const bv::RowGeluGradient& pass, void* stream) {
  bv::start(bv::gelu_gradient_of_rows, pass, stream);
}
