// What the CUDA plug-in does for a training step: one table of functions, found by the name
// bvtrain_cuda_kernels (lib/device/cuda.h). All run on the stream given, and read nothing back.
#pragma once

#include "lib/optim/rules/adam.h"
#include "lib/optim/rules/momentum.h"

namespace bv {

struct FusedArguments {
  const float* grad;
  float* param;
  float* ema;                  // or null
  const double* grad_squares;  // on the device; null: nothing is clipped
  FusedScalars scalars;        // `norm` is that of grad_squares, which the kernel reads
  const FusedChunk* ranges;    // on the host
  int64_t count;
  double* sums;  // (2): of squares of parameters and of updates, of ranges that count; overwritten
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
  // *sum = the sum of squares of n elements, n a multiple of 64.
  void (*square_sum)(const float* values, int64_t n, double* sum, void* stream) = nullptr;
};

}  // namespace bv
