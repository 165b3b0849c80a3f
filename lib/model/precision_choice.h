// What the key `precision` means on a device: `auto` is bf16 on GPUs, and on CPUs where it is
// faster than float32.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <string_view>

#include "lib/device/cpu_bf16.h"
#include "lib/model/pass.h"

namespace bv {

struct PrecisionChoice {
  Precision precision = Precision::float32;
  bool automatic = false;  // the config says `auto`
  // What the config says: "auto", "float32" or "bf16".
  std::string word = "float32";
  bool of_model = false;  // a key of the model decides, not `precision`
  // Why `auto` chose this precision, or why the bf16 of the config saves no time: "this CPU has no
  // bf16 instructions". Empty if there is nothing to say.
  std::string reason;

  std::string name() const;  // "float32" or "bf16"
  // Returns "auto: float32, because this CPU has no bf16 instructions", or only the name if the
  // config names it.
  std::string text() const;
};

// `word` is "float32", "bf16" or "auto"; any other word means "float32".
PrecisionChoice choose_precision(std::string_view word, c10::Device device, CpuBf16 cpu);

}  // namespace bv
