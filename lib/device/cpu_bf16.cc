#include "lib/device/cpu_bf16.h"

#include <ATen/native/CPUBlas.h>

#include "lib/device/plain_kernels.h"

namespace bv {

bool has_amx() {
  static const bool has = at::native::cpublas::could_pack(at::kBFloat16);
  return has;
}

CpuBf16 cpu_bf16() {
#if defined(__x86_64__)
  if (has_amx()) return CpuBf16::fast;
  if (!__builtin_cpu_supports("avx512bf16")) return CpuBf16::none;
  return __builtin_cpu_is("intel") ? CpuBf16::slow : CpuBf16::fast;
#else
  return CpuBf16::none;
#endif
}

bool multiplies_bf16_in_float32() { return !plain_kernels() && cpu_bf16() != CpuBf16::fast; }

}  // namespace bv
