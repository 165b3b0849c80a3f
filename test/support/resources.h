// What this process holds: memory and descriptors. For tests that run for long.
#pragma once

#include <filesystem>
#include <iterator>

#include "lib/util/host.h"

namespace bv::test {

inline int64_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

inline double resident_mib() { return resident_bytes().value_or(0) / (1 << 20); }

}  // namespace bv::test
