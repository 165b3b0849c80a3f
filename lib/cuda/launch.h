// Starts kernels of kThreads threads a block. Apart from kernels.cu, so that its tests can run the
// kernels without a GPU (test/cuda/emulation).
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
