#include "lib/device/peak_flops.h"

namespace bv {
namespace {

struct Peak {
  std::string_view part;  // of the name
  double bf16, float32;   // TFLOP/s
};

// From NVIDIA's data sheets. The first part that a name has decides.
constexpr Peak kPeaks[] = {
    {"B200", 2250, 75},         {"GH200", 989.4, 66.9},    {"H200", 989.4, 66.9},
    {"H100 PCIe", 756, 51},     {"H100 NVL", 835.5, 60},   {"H100", 989.4, 66.9},
    {"H800", 989.4, 66.9},      {"A100", 312, 19.5},       {"A800", 312, 19.5},
    {"A30", 165, 10.3},         {"A40", 149.7, 37.4},      {"A10G", 70, 31.2},
    {"L40S", 362, 91.6},        {"L40", 181, 90.5},        {"L4", 121, 30.3},
    {"RTX 5090", 209.5, 104.8}, {"RTX 4090", 165.2, 82.6}, {"RTX 3090", 71, 35.6}};

}  // namespace

double peak_flops(std::string_view name, bool bf16) {
  for (const Peak& peak : kPeaks) {
    if (name.find(peak.part) == std::string_view::npos) continue;
    return 1e12 * (bf16 ? peak.bf16 : peak.float32);
  }
  return 0;
}

}  // namespace bv
