#include "lib/util/host.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <vector>

TEST_CASE("the host name is the system's") {
  char name[256] = {};
  REQUIRE(::gethostname(name, sizeof(name) - 1) == 0);
  CHECK(bv::host_name() == name);
}

TEST_CASE("the resident memory grows with what is touched") {
  const auto before = bv::resident_bytes();
  REQUIRE(before);
  CHECK(*before > 1e5);
  constexpr size_t kBytes = 64 << 20;
  const std::vector<char> block(kBytes, 1);
  CHECK(*bv::resident_bytes() > *before + kBytes / 2.0);
}

TEST_CASE("a time in UTC") { CHECK(bv::utc_text(1763717401) == "2025-11-21T09:30:01Z"); }
