#include "lib/device/plain_kernels.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

namespace bv {
namespace {

std::atomic<bool>& flag() {
  static std::atomic<bool> plain = [] {
    const char* value = std::getenv("BVTRAIN_PLAIN_KERNELS");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return plain;
}

}  // namespace

bool plain_kernels() { return flag().load(std::memory_order_relaxed); }

void use_plain_kernels() { flag() = true; }

}  // namespace bv
