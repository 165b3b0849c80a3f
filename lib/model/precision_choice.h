// What the key `precision` means on a device: `auto` is bf16 where the device computes it natively,
// otherwise float32.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <string_view>

#include "lib/model/pass.h"

namespace bv {

struct PrecisionChoice {
  Precision precision = Precision::float32;
  bool automatic = false;  // the config says `auto`
  std::string reason;      // of `auto`: "this CPU has no bf16 instructions"

  std::string name() const;    // "float32" or "bf16"
  std::string config() const;  // what the config says: "auto", "float32" or "bf16"
  // Returns "auto: float32, because this CPU has no bf16 instructions", or only the name if the
  // config names it.
  std::string text() const;
};

// `word` is "float32", "bf16" or "auto"; any other word means "float32".
PrecisionChoice choose_precision(std::string_view word, c10::Device device, bool cpu_has_bf16);

// Returns whether oneDNN computes bf16 natively on this CPU. On others it emulates bf16 slowly.
bool cpu_has_bf16();

}  // namespace bv
