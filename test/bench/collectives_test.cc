// Link latency and bandwidth, estimated from the times of collectives.
#include "lib/bench/collectives.h"

#include <catch2/catch.hpp>

namespace bv::test {

TEST_CASE("collectives: latency and bandwidth follow from the smallest and the largest size") {
  // On 4 ranks an all-reduce is 6 messages of a quarter of the bytes each.
  const CollectiveTimes small{.bytes = 4096, .all_reduce = 6e-5};
  const auto link = estimate_link(small, {.bytes = 4'000'000, .all_reduce = 6e-5 + 3e-3}, 4);
  REQUIRE(link.has_value());
  CHECK(link->latency == Approx(1e-5));
  CHECK(link->bandwidth == Approx(2e9));
  // On a busy host, the result is unknown, not a negative bandwidth.
  CHECK_FALSE(estimate_link(small, {.bytes = 4'000'000, .all_reduce = 5e-5}, 4).has_value());
}

}  // namespace bv::test
