// The names of temporary files, and whether their writers are alive.
#include "lib/util/temporary_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>

#include "lib/util/host.h"
#include "lib/util/rng.h"
#include "test/support/folder.h"

namespace bv::test {

TEST_CASE("the process of an earlier boot is not taken for one that lives") {
  if (!exists("/proc/sys/kernel/random/boot_id")) return;  // a sandbox without a complete /proc
  const TempFolder folder;
  const std::string mine = temporary_name(folder / "a");
  CHECK(file_of_temporary(mine) == folder / "a");
  CHECK(temporary_state(mine) == TemporaryState::being_written);
  // The same host, process namespace and process, but not this boot.
  std::array<char, 64> numbers{};
  REQUIRE(::readlink("/proc/self/ns/pid", numbers.data(), numbers.size() - 1) > 0);
  const auto place = static_cast<uint32_t>(hash64(host_name() + numbers.data()));
  const std::string earlier = fmt::format("a.tmp-{:08x}-{}-0", place, ::getpid());
  CHECK(temporary_state(folder.write(earlier, "half")) == TemporaryState::unknown);
}

}  // namespace bv::test
