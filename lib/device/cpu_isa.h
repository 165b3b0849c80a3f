#pragma once

namespace bv {

// Instruction sets that kernels are compiled for; each includes those before it.
enum class CpuIsa {
  baseline,  // what every CPU of the architecture has
  avx2,      // AVX2 and FMA
  avx512,    // AVX-512 F, VL, BW and DQ
};

// Returns the set that LibTorch's kernels use; bvtrain's kernels use the same. It is the best set
// that this CPU has. ATEN_CPU_CAPABILITY=avx2 or default in the environment limits it.
CpuIsa cpu_isa();

}  // namespace bv
