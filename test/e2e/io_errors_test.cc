// A part of test/faults/io_errors.py: I/O calls of a run that fail.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "test/support/binary.h"
#include "test/support/golden.h"
#include "test/support/limits.h"
#include "test/support/text.h"

namespace bv::test {

TEST_CASE("a run in which an I/O call fails loses nothing") {
  const std::string python = test_python();
  if (python.empty() || kSanitized)
    return;  // a sanitizer must be loaded before all other libraries
  const char* binary = std::getenv("BVTRAIN");
  REQUIRE(binary != nullptr);
  const Finished finished =
      Process(python,
              {python, source_file("test/faults/io_errors.py"), "--binary", binary, "--every", "61",
               "--errors", "EIO,ENOSPC,short", "plain"},
              {})
          .wait();
  INFO(finished.out << finished.err);
  CHECK(finished.code == 0);
  CHECK(contains(finished.out, "; 0 wrong\n"));
}

}  // namespace bv::test
