#include "lib/device/heap.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>

#include "test/support/limits.h"
#include "test/support/resources.h"

namespace bv::test {

TEST_CASE("a block of the heap takes the pages of one that was freed") {
  if (kSanitized) return;  // it has its own allocator
  keep_freed_memory();
  for (const int64_t mib : {1, 20}) {
    // Small blocks may be between the freed pages, so the first rounds may need more.
    long least = std::numeric_limits<long>::max();
    for (int i = 0; i < 20; ++i) {
      const long before = page_faults();
      const std::unique_ptr<char, decltype(&std::free)> block(
          static_cast<char*>(std::malloc(mib << 20)), &std::free);
      REQUIRE(block != nullptr);
      std::memset(block.get(), 1, mib << 20);
      least = std::min(least, page_faults() - before);
    }
    INFO(mib << " MiB");
    CHECK(least < 10);  // new pages would take at least 256
  }
}

}  // namespace bv::test
