#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace bv {

// Throws std::runtime_error with CUDA's error string. `what`: what failed.
inline void check_cuda(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string("CUDA: ") + what + ": " + cudaGetErrorString(error));
}

}  // namespace bv
