// The part of CUDA's header that kernels.cu uses, for the CPU. The code that runs a kernel sets
// threadIdx, blockIdx and gridDim, and defines __syncthreads().
#pragma once

#include <cmath>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)

using cudaStream_t = void*;
using cudaError_t = int;
enum { cudaSuccess = 0 };
inline const char* cudaGetErrorString(cudaError_t) { return "none"; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }

struct Index {
  unsigned x = 0;
};
inline thread_local Index threadIdx, blockIdx;
inline Index gridDim;
inline void (*synchronize_block)() = nullptr;
inline void __syncthreads() { synchronize_block(); }
