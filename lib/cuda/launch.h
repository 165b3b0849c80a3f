// Starts a kernel with kThreads threads per block. It is separate from kernels.cu so that tests can
// replace it and run the kernels without a GPU (test/cuda/emulation).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace bv {

constexpr int kThreads = 256;

template <class... Parameters>
void launch(void (*kernel)(Parameters...), int64_t blocks, cudaStream_t stream,
            std::type_identity_t<Parameters>... arguments) {
  kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(arguments...);
}

}  // namespace bv
