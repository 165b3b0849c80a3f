#include "lib/device/device_name.h"

#include "lib/device/cpu_isa.h"
#include "lib/device/cuda.h"
#include "lib/util/host.h"

namespace bv {

std::string device_name(c10::Device device) {
  if (!device.is_cpu()) return cuda_name(device.index());
  std::string name = cpu_name();
  if (name.empty()) name = "cpu";
  switch (cpu_isa()) {
    case CpuIsa::avx512:
      return name + " with AVX-512";
    case CpuIsa::avx2:
      return name + " with AVX2";
    case CpuIsa::baseline:
      return name;
  }
  return name;
}

}  // namespace bv
