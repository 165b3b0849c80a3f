// Short parts of the trials in test/faults. docs/reliability.md has the results of the long ones.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "test/support/binary.h"
#include "test/support/golden.h"
#include "test/support/limits.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

// Runs a script of test/faults, which must end with 0. Returns what it prints.
std::string trial(const std::string& script, const std::vector<std::string>& flags) {
  const char* binary = std::getenv("BVTRAIN");
  REQUIRE(binary != nullptr);
  const std::string python = test_python();
  std::vector<std::string> args = {python, source_file("test/faults/" + script), "--binary",
                                   binary};
  args.insert(args.end(), flags.begin(), flags.end());
  const Finished finished = Process(python, args, {}).wait();
  INFO(finished.out << finished.err);
  CHECK(finished.code == 0);
  return finished.out;
}

// Returns whether a trial that loads a library into the program can run: a sanitizer must be loaded
// before all other libraries.
bool loads_libraries() { return !test_python().empty() && !kSanitized; }

}  // namespace

TEST_CASE("runs that are killed at random moments end like undisturbed ones") {
  if (test_python().empty()) return;
  const std::string out =
      trial("random_kills.py", {"--kills", "6", "--seed", "3", "plain", "zero1", "early"});
  CHECK(count(out, ", all equal\n") == 3);
}

TEST_CASE("a run in which an I/O call fails loses nothing") {
  if (!loads_libraries()) return;
  CHECK(contains(trial("io_errors.py", {"--every", "61", "--errors", "EIO,ENOSPC,short", "plain"}),
                 "; 0 wrong\n"));
  // The first calls of a start, such as the one that opens the lock.
  CHECK(contains(trial("io_errors.py", {"--until", "6", "--errors", "EINTR", "plain"}),
                 "; 0 wrong\n"));
}

TEST_CASE("what a machine that loses power leaves of a run can be continued") {
  if (!loads_libraries()) return;
  CHECK(contains(trial("crash_states.py", {"--every", "47", "plain"}), " states; 0 wrong\n"));
}

TEST_CASE("a signal in any phase of a run ends it as documented and loses nothing") {
  if (test_python().empty()) return;
  CHECK(
      contains(trial("signals.py", {"--each", "1", "building", "commit"}), "commit: 5 signals, "));
}

}  // namespace bv::test
