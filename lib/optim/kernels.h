// The optimizer kernels of the CUDA plug-in: one table of functions, which the plug-in exports
// under the name bvtrain_cuda_kernels (lib/device/cuda.h). All of them run asynchronously on the
// given stream. An optimizer with a new rule adds it to CudaKernels and to lib/cuda/kernels.cu.
#pragma once

#include "lib/optim/rules/adam.h"
#include "lib/optim/rules/momentum.h"

namespace bv {

// All pointers except `ranges` point to memory on the parameters' device.
struct FusedArguments {
  const float* grad;
  float* param;
  float* ema;                  // null: no averaged weights
  const double* grad_squares;  // square of the global norm; null: no clipping
  FusedScalars scalars;
  FusedNumbers numbers;
  const FusedChunk* ranges;  // always on the host
  int64_t count;             // of ranges
  double* sums;              // (2), see Optimizer::update(); overwritten
};

template <class Rule>
struct UpdateKernel {
  void (*update)(const Rule& rule, const FusedArguments& arguments, void* stream) = nullptr;
};
template <class... Rules>
struct UpdateKernels : UpdateKernel<Rules>... {};

struct CudaKernels
    : UpdateKernels<FactorRule, AdamRule<float, false>, AdamRule<float, true>,
                    AdamRule<Bf16, false>, AdamRule<Bf16, true>, MomentumRule<float, false>,
                    MomentumRule<float, true>, MomentumRule<Bf16, false>, MomentumRule<Bf16, true>,
                    AverageRule<float>, AverageRule<Bf16>> {
  // Writes the sum of squares of n elements to *sum. n is a multiple of 64.
  void (*square_sum)(const float* values, int64_t n, double* sum, void* stream) = nullptr;
};

}  // namespace bv
