// Replaces lib/cuda/launch.h: submits kernels with their arguments to the emulated GPU, as work of
// the current stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <type_traits>

#define BV_UNROLL

namespace bv {

constexpr int kThreads = 256;
constexpr int kWarp = 32;

// Sums in the order of the GPU's shuffles.
inline float warp_sum(float own) {
  __shared__ float all[kThreads];
  all[threadIdx.x] = own;
  __syncthreads();
  float sums[kWarp];
  const float* const warp = all + threadIdx.x / kWarp * kWarp;
  for (int i = 0; i < kWarp; ++i) sums[i] = warp[i];
  for (int half = kWarp / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
  __syncthreads();
  return sums[0];
}

namespace emulation {

// Runs `kernel` once for each thread of each block. The threads of a block take turns on one CPU
// thread: each is a fiber with its own stack.
void run_blocks(int64_t blocks, const std::function<void()>& kernel);
// Submits `work`, which may use device addresses.
void submit_kernel(const std::function<void()>& work);

}  // namespace emulation

template <class... Parameters>
void launch(void (*kernel)(Parameters...), int64_t blocks, cudaStream_t,
            std::type_identity_t<Parameters>... arguments) {
  emulation::submit_kernel([=] { emulation::run_blocks(blocks, [=] { kernel(arguments...); }); });
}

}  // namespace bv
