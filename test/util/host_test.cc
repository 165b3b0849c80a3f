#include "lib/util/host.h"

#include <unistd.h>

#include <catch2/catch.hpp>

TEST_CASE("the host name is the system's") {
  char name[256] = {};
  REQUIRE(::gethostname(name, sizeof(name) - 1) == 0);
  CHECK(bv::host_name() == name);
}
