// The switch between bvtrain's own kernels for CPUs (lib/model/kernels) and LibTorch's.
#pragma once

namespace bv {

// Whether models use LibTorch's kernels only: after use_plain_kernels(), or if the environment has
// BVTRAIN_PLAIN_KERNELS=1. The results differ by rounding.
bool plain_kernels();
// From now on. For commands that show what a model does on a GPU.
void use_plain_kernels();

}  // namespace bv
