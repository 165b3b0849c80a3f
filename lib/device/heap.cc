#include "lib/device/heap.h"

#include <malloc.h>

#include <limits>

namespace bv {

void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // bytes; the most that glibc before 2.35 takes
  mallopt(M_MMAP_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TRIM_THRESHOLD, -1);  // never
}

}  // namespace bv
