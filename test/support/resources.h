// The resources of this process: memory, descriptors and page faults.
#pragma once

#include <sys/resource.h>

#include <filesystem>
#include <iterator>

#include "lib/util/host.h"

namespace bv::test {

inline int64_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

inline double resident_mib() { return resident_bytes().value_or(0) / (1 << 20); }

// The page faults so far that needed no disk.
inline long page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

}  // namespace bv::test
