// Replaces lib/cuda/launch.h: runs one block after the other, each thread of a block as a CPU
// thread. All threads of a block must call __syncthreads() the same number of times.
#pragma once

#include <cuda_runtime.h>

#include <barrier>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

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

inline std::barrier<>* block_barrier = nullptr;

template <class... Parameters>
void launch(void (*kernel)(Parameters...), int64_t blocks, cudaStream_t,
            std::type_identity_t<Parameters>... arguments) {
  std::barrier<> barrier(kThreads);
  block_barrier = &barrier;
  synchronize_block = [] { block_barrier->arrive_and_wait(); };
  gridDim.x = static_cast<unsigned>(blocks);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back([=] {
      threadIdx.x = i;
      for (unsigned block = 0; block < gridDim.x; ++block) {
        blockIdx.x = block;
        kernel(arguments...);
        synchronize_block();  // the next block has the same shared memory
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace bv
