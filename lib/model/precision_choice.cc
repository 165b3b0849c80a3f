#include "lib/model/precision_choice.h"

#include <fmt/format.h>

namespace bv {
namespace {

std::string about(CpuBf16 cpu) {
  switch (cpu) {
    case CpuBf16::none:
      return "this CPU has no bf16 instructions";
    case CpuBf16::slow:
      return "float32 is faster than bf16 on this CPU, which has no AMX";
    case CpuBf16::fast:
      break;
  }
  return "this CPU has fast bf16 instructions";
}

}  // namespace

PrecisionChoice choose_precision(std::string_view word, c10::Device device, CpuBf16 cpu) {
  PrecisionChoice choice;
  choice.automatic = word == "auto";
  const bool fast = !device.is_cpu() || cpu == CpuBf16::fast;
  if (word == "bf16" || (choice.automatic && fast)) choice.precision = Precision::bf16;
  if (choice.automatic || (word == "bf16" && !fast))
    choice.reason = device.is_cpu() ? about(cpu) : "the device is a GPU";
  choice.word = choice.automatic ? "auto" : choice.name();
  return choice;
}

std::string PrecisionChoice::name() const {
  return precision == Precision::bf16 ? "bf16" : "float32";
}

std::string PrecisionChoice::text() const {
  return automatic ? fmt::format("auto: {}, because {}", name(), reason) : name();
}

}  // namespace bv
