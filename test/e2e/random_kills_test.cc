// A short part of test/faults/random_kills.py, which kills real runs at random moments.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "test/support/binary.h"
#include "test/support/golden.h"
#include "test/support/text.h"

namespace bv::test {

TEST_CASE("runs that are killed at random moments end like undisturbed ones") {
  const std::string python = test_python();
  if (python.empty()) return;
  const char* binary = std::getenv("BVTRAIN");
  REQUIRE(binary != nullptr);
  const Finished finished =
      Process(python,
              {python, source_file("test/faults/random_kills.py"), "--binary", binary, "--kills",
               "6", "--seed", "3", "plain", "zero1", "early"},
              {})
          .wait();
  INFO(finished.out << finished.err);
  CHECK(finished.code == 0);
  CHECK(count(finished.out, ", all equal\n") == 3);
}

}  // namespace bv::test
