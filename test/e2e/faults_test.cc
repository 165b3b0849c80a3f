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

// Returns whether this user may mount file systems and create namespaces, which some trials need.
bool may_mount() {
  if (test_python().empty()) return false;
  const char* command = "unshare --mount --pid --uts --fork mount -t tmpfs none /mnt";
  if (Process("/bin/sh", {"sh", "-c", command}, {}).wait().code == 0) return true;
  WARN("skipped: this user may not mount file systems");
  return false;
}

}  // namespace

TEST_CASE("runs that are killed at random moments end like undisturbed ones") {
  if (test_python().empty()) return;
  const std::string out =
      trial("random_kills.py", {"--kills", "4", "--seed", "3", "plain", "zero1", "early"});
  CHECK(count(out, ", all equal\n") == 3);
}

TEST_CASE("a run in which an I/O call fails loses nothing") {
  if (!loads_libraries()) return;
  CHECK(contains(trial("io_errors.py", {"--every", "97", "--errors", "EIO,ENOSPC,short", "plain"}),
                 "; 0 wrong\n"));
  // The first calls of a start, such as the one that opens the lock.
  CHECK(contains(trial("io_errors.py", {"--until", "6", "--errors", "EINTR", "plain"}),
                 "; 0 wrong\n"));
}

TEST_CASE("what a machine that loses power leaves of a run can be continued") {
  if (!loads_libraries()) return;
  CHECK(contains(trial("crash_states.py", {"--every", "71", "plain"}), " states; 0 wrong\n"));
}

TEST_CASE("a run on a full disk ends as documented, and goes on once there is room") {
  if (!may_mount()) return;
  CHECK(count(trial("full_disk.py", {"--every", "97", "--spells", "1"}), "; 0 wrong\n") == 4);
}

TEST_CASE("two runs on one workdir: one is refused, and takes over after a kill") {
  if (!may_mount()) return;
  CHECK(count(trial("two_runs.py", {"--rounds", "1", "--trials", "beside,killed", "pid namespace",
                                    "other machine"}),
              ": 2 trials; 0 wrong\n") == 2);
}

TEST_CASE("files of the training data that break during a run are noticed") {
  if (test_python().empty()) return;
  CHECK(trial("broken_data.py", {"image_folder:flip", "webdataset:cut_off", "csv:delete"}) ==
        "image_folder, flip: ends with 3; with skip_errors skipped\n"
        "webdataset, cut_off: ends with 3; with skip_errors skipped\n"
        "csv, delete: ends with 3; with skip_errors skipped\n");
}

TEST_CASE("jumps of the time of day change nothing") {
  if (!loads_libraries()) return;
  CHECK(count(trial("clock_jumps.py", {"--runs", "1"}), ": 1 runs; 0 wrong\n") == 3);
}

TEST_CASE("a signal in any phase of a run ends it as documented and loses nothing") {
  if (test_python().empty()) return;
  CHECK(
      contains(trial("signals.py", {"--each", "1", "building", "commit"}), "commit: 5 signals, "));
}

}  // namespace bv::test
