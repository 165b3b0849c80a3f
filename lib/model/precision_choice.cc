#include "lib/model/precision_choice.h"

#include <fmt/format.h>

namespace bv {

PrecisionChoice choose_precision(std::string_view word, c10::Device device, bool cpu_has_bf16) {
  PrecisionChoice choice;
  choice.automatic = word == "auto";
  const bool native = !device.is_cpu() || cpu_has_bf16;
  if (word == "bf16" || (choice.automatic && native)) choice.precision = Precision::bf16;
  if (!choice.automatic) return choice;
  choice.reason = !device.is_cpu() ? "the device is a GPU"
                  : native         ? "this CPU has bf16 instructions"
                                   : "this CPU has no bf16 instructions";
  return choice;
}

std::string PrecisionChoice::name() const {
  return precision == Precision::bf16 ? "bf16" : "float32";
}

std::string PrecisionChoice::config() const { return automatic ? "auto" : name(); }

std::string PrecisionChoice::text() const {
  return automatic ? fmt::format("auto: {}, because {}", name(), reason) : name();
}

bool cpu_has_bf16() {
  return __builtin_cpu_supports("avx512bf16") || __builtin_cpu_supports("amx-bf16");
}

}  // namespace bv
