// Launches a kernel with kThreads threads per block. This is a separate header so that tests can
// replace it and run the kernels without a GPU (test/cuda/emulation, test/emulated_cuda).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#define BV_UNROLL _Pragma("unroll")  // the loop that follows

namespace bv {

constexpr int kThreads = 256;

constexpr int kWarp = 32;  // threads

// Returns the sum over the threads of a warp, bit-identical on each. All threads of the block must
// call it: CUDA requires only those of the warp, but the emulation requires all.
__device__ inline float warp_sum(float own) {
  for (int other = kWarp / 2; other > 0; other /= 2)
    own += __shfl_xor_sync(0xffffffffU, own, other);
  return own;
}

template <class... Parameters>
void launch(void (*kernel)(Parameters...), int64_t blocks, cudaStream_t stream,
            std::type_identity_t<Parameters>... arguments) {
  kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(arguments...);
}

}  // namespace bv
