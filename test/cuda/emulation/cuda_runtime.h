// The part of CUDA that kernels.cu uses, for the CPU: a block is kThreads threads of the CPU.
#pragma once

#include <barrier>
#include <cmath>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(threads)

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
inline std::barrier<>* block_barrier = nullptr;
inline void __syncthreads() { block_barrier->arrive_and_wait(); }
