// The switch between bvtrain's own kernels for layers (lib/model/kernels) and LibTorch's operators.
#pragma once

namespace bv {

// Whether models use LibTorch's operators only: after use_plain_kernels(), or if the environment
// has BVTRAIN_PLAIN_KERNELS=1. The results differ by rounding.
bool plain_kernels();
// Makes plain_kernels() true from now on. For `bench operators`, which lists LibTorch's operators.
void use_plain_kernels();

}  // namespace bv
