// Replaces lib/cuda/launch.h: runs one block after the other, each thread of a block as a thread of
// the CPU.
#pragma once

#include <cuda_runtime.h>

#include <barrier>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace bv {

constexpr int kThreads = 256;

inline std::barrier<>* block_barrier = nullptr;

template <class... Parameters>
void launch(void (*kernel)(Parameters...), int64_t blocks, cudaStream_t,
            std::type_identity_t<Parameters>... arguments) {
  synchronize_block = [] { block_barrier->arrive_and_wait(); };
  gridDim.x = static_cast<unsigned>(blocks);
  for (unsigned block = 0; block < gridDim.x; ++block) {
    std::barrier<> barrier(kThreads);
    block_barrier = &barrier;
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i) {
      threads.emplace_back([=] {
        threadIdx.x = i;
        blockIdx.x = block;
        kernel(arguments...);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace bv
