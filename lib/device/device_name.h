#pragma once

#include <c10/core/Device.h>

#include <string>

namespace bv {

// Returns what computes on `device`: "AMD EPYC 7B13 with AVX2" or "NVIDIA H100 80GB HBM3". Two
// devices with different names may round differently.
std::string device_name(c10::Device device);

}  // namespace bv
