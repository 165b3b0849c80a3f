#include "lib/util/host.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <vector>

TEST_CASE("the host name is the system's") {
  char name[256] = {};
  REQUIRE(::gethostname(name, sizeof(name) - 1) == 0);
  CHECK(bv::host_name() == name);
}

TEST_CASE("the peak of the resident memory grows with what is used") {
  const auto before = bv::peak_resident_bytes();
  REQUIRE(before.has_value());
  constexpr size_t kBytes = size_t{64} << 20;
  const std::vector<char> used(kBytes, 1);
  CHECK(*bv::peak_resident_bytes() >= static_cast<double>(kBytes));
  CHECK(*bv::peak_resident_bytes() >= *before);
  CHECK(used.back() == 1);
}

TEST_CASE("times are written in UTC") {
  CHECK(bv::utc_text(0) == "1970-01-01T00:00:00Z");
  CHECK(bv::utc_text(1763717401) == "2025-11-21T09:30:01Z");
}
