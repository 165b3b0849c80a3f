#include "lib/device/cpu_isa.h"

#include <ATen/Version.h>

#include <string>

namespace bv {

CpuIsa cpu_isa() {
  static const CpuIsa found = [] {
    const std::string name = at::get_cpu_capability();
    return name == "AVX512" ? CpuIsa::avx512 : name == "AVX2" ? CpuIsa::avx2 : CpuIsa::baseline;
  }();
  return found;
}

}  // namespace bv
