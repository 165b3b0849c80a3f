#include "lib/device/heap.h"

#include <malloc.h>

#include <limits>

namespace bv {

void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // in bytes; malloc maps larger blocks
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

}  // namespace bv
