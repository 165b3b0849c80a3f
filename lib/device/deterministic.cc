#include "lib/device/deterministic.h"

#include <ATen/Context.h>

#include <cstdlib>

namespace bv {
namespace {

// NVLS and NVLSTree, which sum in the switch between GPUs, sum in any order. NCCL compares whole
// names and reads the variable at its first collective. The user's own setting is kept.
void allow_nvls(bool allowed) {
  static const bool given = std::getenv("NCCL_ALGO") != nullptr;
  if (given) return;
  if (allowed)
    ::unsetenv("NCCL_ALGO");  // c10d sets it if algorithms must be deterministic
  else
    ::setenv("NCCL_ALGO", "^NVLS,NVLSTree", /*overwrite=*/1);
}

}  // namespace

void set_deterministic(bool on) {
  at::Context& context = at::globalContext();
  context.setDeterministicCuDNN(on);
  context.setBenchmarkCuDNN(!on);
  context.setSDPUseCuDNN(!on);
  context.setDeterministicAlgorithms(on, /*warn_only=*/on);
  context.setDeterministicFillUninitializedMemory(false);
  allow_nvls(!on);
}

}  // namespace bv
