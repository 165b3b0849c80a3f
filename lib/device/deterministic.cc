#include "lib/device/deterministic.h"

#include <ATen/Context.h>

namespace bv {

void set_deterministic(bool on) {
  at::Context& context = at::globalContext();
  context.setDeterministicCuDNN(on);
  context.setBenchmarkCuDNN(!on);
  context.setSDPUseCuDNN(!on);
  context.setDeterministicAlgorithms(on, /*warn_only=*/on);
  context.setDeterministicFillUninitializedMemory(false);
}

}  // namespace bv
