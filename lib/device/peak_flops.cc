#include "lib/device/peak_flops.h"

#include <cctype>

namespace bv {
namespace {

struct Peak {
  std::string_view part;  // of the name
  double bf16, float32;   // TFLOP/s
  double memory;          // GB/s
};

// From NVIDIA's data sheets, without sparsity. The first entry that fits the name counts.
constexpr Peak kPeaks[] = {{"GB200", 2500, 80, 8000},
                           {"B200", 2250, 75, 8000},
                           {"GH200", 989.4, 66.9, 4000},
                           {"H200 NVL", 835.5, 60, 4800},
                           {"H200", 989.4, 66.9, 4800},
                           {"H100 PCIe", 756, 51, 2000},
                           {"H100 NVL", 835.5, 60, 3900},
                           {"H100", 989.4, 66.9, 3350},
                           {"H800", 989.4, 66.9, 3350},
                           {"A100-SXM4-40GB", 312, 19.5, 1555},
                           {"A100-PCIE-40GB", 312, 19.5, 1555},
                           {"A100 80GB PCIe", 312, 19.5, 1935},
                           {"A100", 312, 19.5, 2039},
                           {"A800", 312, 19.5, 2039},
                           {"A30", 165, 10.3, 933},
                           {"A40", 149.7, 37.4, 696},
                           {"A10G", 70, 31.2, 600},
                           {"L40S", 362, 91.6, 864},
                           {"L40", 181, 90.5, 864},
                           {"L4", 121, 30.3, 300},
                           {"RTX 5090", 209.5, 104.8, 1792},
                           {"RTX 4090", 165.2, 82.6, 1008},
                           {"RTX 3090", 71, 35.6, 936}};

// Whether `name` contains `part` as whole words: "RTX A4000" does not contain "A40".
bool has_words(std::string_view name, std::string_view part) {
  const auto in_word = [&](size_t at) {
    return at < name.size() && std::isalnum(static_cast<unsigned char>(name[at])) != 0;
  };
  for (size_t at = name.find(part); at != std::string_view::npos; at = name.find(part, at + 1)) {
    if (!(at > 0 && in_word(at - 1)) && !in_word(at + part.size())) return true;
  }
  return false;
}

const Peak* find_peak(std::string_view name) {
  if (has_words(name, "MIG")) return nullptr;  // a part of a GPU
  for (const Peak& peak : kPeaks) {
    // Other GPUs are named after these: "RTX 4090 Laptop GPU", "RTX 3090 Ti".
    const bool fits =
        peak.part.starts_with("RTX") ? name.ends_with(peak.part) : has_words(name, peak.part);
    if (fits) return &peak;
  }
  return nullptr;
}

}  // namespace

double peak_flops(std::string_view name, bool bf16) {
  const Peak* const peak = find_peak(name);
  return peak == nullptr ? 0 : 1e12 * (bf16 ? peak->bf16 : peak->float32);
}

double peak_bandwidth(std::string_view name) {
  const Peak* const peak = find_peak(name);
  return peak == nullptr ? 0 : 1e9 * peak->memory;
}

}  // namespace bv
