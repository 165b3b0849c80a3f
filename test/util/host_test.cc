#include "lib/util/host.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <vector>

#include "test/support/folder.h"

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

TEST_CASE("the peak of the resident memory grows with what is used") {
  const auto before = bv::peak_resident_bytes();
  REQUIRE(before.has_value());
  constexpr size_t kBytes = size_t{64} << 20;
  const std::vector<char> used(kBytes, 1);
  CHECK(*bv::peak_resident_bytes() >= static_cast<double>(kBytes));
  CHECK(*bv::peak_resident_bytes() >= *before);
  CHECK(used.back() == 1);
}

TEST_CASE("the CPU quota is that of the strictest control group") {
  const bv::test::TempFolder dir;
  const std::string root = dir.path() + "/";
  CHECK_FALSE(bv::cpu_quota(root));
  dir.write("proc/self/cgroup", "0::/a/b\n");
  dir.write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  CHECK_FALSE(bv::cpu_quota(root));
  dir.write("sys/fs/cgroup/a/cpu.max", "250000 100000\n");
  CHECK(bv::cpu_quota(root) == 2.5);
  dir.write("sys/fs/cgroup/a/b/cpu.max", "150000 100000\n");
  CHECK(bv::cpu_quota(root) == 1.5);
  // Version 1. Within a container only the group of the container is visible.
  dir.write("proc/self/cgroup", "12:cpu,cpuacct:/docker/1f\n5:memory:/docker/1f\n");
  dir.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  dir.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  CHECK_FALSE(bv::cpu_quota(root));
  dir.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  CHECK(bv::cpu_quota(root) == 0.5);
}

TEST_CASE("times are written in UTC") {
  CHECK(bv::utc_text(0) == "1970-01-01T00:00:00Z");
  CHECK(bv::utc_text(1763717401) == "2025-11-21T09:30:01Z");
}
