// A test whose data is missing passes with a printed line, or fails if BVTRAIN_REQUIRE_DATA=1.
#include <catch2/catch.hpp>

#include "test/support/golden.h"
#include "test/support/process.h"
#include "test/support/text.h"

namespace bv::test {

TEST_CASE("compares with missing data", "[.]") {
  if (shared_file("golden/no_such_file.npz").empty()) return;
}

TEST_CASE("BVTRAIN_REQUIRE_DATA=1 makes a test fail whose data is missing, and names the file") {
  for (const std::string required : {"0", "1"}) {
    // The compact reporter does not wrap lines, however long the path is.
    Process test("/proc/self/exe", {"test_util", "compares with missing data", "-r", "compact"},
                 {{"BVTRAIN_REQUIRE_DATA", required}});
    const Finished finished = test.wait();
    INFO(finished.out << finished.err);
    CHECK(finished.code == (required == "1" ? 1 : 0));
    CHECK(contains(finished.out, "/golden/no_such_file.npz"));
  }
}

}  // namespace bv::test
