#pragma once

namespace bv {

// How fast a CPU multiplies matrices in bf16.
enum class CpuBf16 {
  none,  // it has no bf16 instructions
  slow,  // Intel's AVX-512 bf16 without AMX: half as fast as float32 on a Xeon with AMX off
  fast,  // AMX, or AMD's AVX-512 bf16
};

CpuBf16 cpu_bf16();

// Whether this CPU uses AMX for products in bf16.
bool has_amx();

// Whether bvtrain's kernels compute products of bf16 operands in float32, because that is faster on
// this CPU. False if models use LibTorch's operators only.
bool multiplies_bf16_in_float32();

}  // namespace bv
