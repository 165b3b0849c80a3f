// Restarts of a group by its launcher: --max-restarts and --elastic.
#include <signal.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lib/distributed/launch/launcher.h"
#include "test/distributed/workers.h"

namespace bv::test {
namespace {

TEST_CASE("--max-restarts starts the group again after a failure, with fewer ranks if elastic") {
  Worker first =
      launched({{"DIST_RANKS", "2"}, {"DIST_FAULT", "kill:1:3"}, {"DIST_RESTARTS", "1"}});
  Worker second = launched({{"DIST_RANKS", "3"},
                            {"DIST_FAULT", "kill:1:3"},
                            {"DIST_RESTARTS", "3"},
                            {"DIST_ELASTIC", "1:4"},
                            {"DIST_BATCH", "9"}});
  const Finished again = first.wait(), fewer = second.wait();
  INFO(again.err << fewer.err);
  CHECK(again.code == 0);
  CHECK_THAT(again.err, Catch::Contains("the ranks ended with code 137; starting again, 1 of 1, "
                                        "with 2 ranks here"));
  CHECK(fewer.code == 0);
  CHECK_THAT(fewer.err, Catch::Contains("starting again, 1 of 3, with 1 rank here"));
}

TEST_CASE("an ignored SIGHUP, as under nohup, does not keep the group from starting again") {
  Worker launcher = launched({{"DIST_RANKS", "2"},
                              {"DIST_STEPS", "1000000 20"},
                              {"DIST_RESTARTS", "1"},
                              {"DIST_NOHUP", "1"}});
  CHECK(launcher.first_line() == "stepping");
  const int failing = process_of(launcher, 1);
  REQUIRE(failing > 0);
  launcher.kill(SIGHUP);
  ::kill(failing, SIGKILL);
  const Finished ended = launcher.wait();
  INFO(ended.err);
  CHECK(ended.code == 0);
  CHECK(count(ended.err, "ended with code 137; starting again, 1 of 1, with 2 ranks here\n") == 1);
}

TEST_CASE("the group does not start again after a step if the run's files are gone") {
  const auto start = [](const char* fault) {
    return launched({{"DIST_RANKS", "2"},
                     {"DIST_STEPS", "100"},
                     {"DIST_FAULT", fault},
                     {"DIST_RESTARTS", "1"},
                     {"DIST_WORKDIR_PROBLEM", "out/x: the workdir is gone"}});
  };
  Worker late = start("kill:1:50"), early = start("kill:1:0");
  const Hosts nodes({{"DIST_RANKS", "1"},
                     {"DIST_STEPS", "100"},
                     {"DIST_FAULT", "kill:1:50"},
                     {"DIST_RESTARTS", "1"},
                     {"DIST_WORKDIR_PROBLEM", "out/x: the workdir is gone"}});
  Worker second = nodes.start("1"), first = nodes.start("0");
  const Finished lost = late.wait(), again = early.wait();
  INFO(lost.err << again.err);
  CHECK(lost.code == 137);
  CHECK(count(lost.err, "warning: not starting again: out/x: the workdir is gone\n") == 1);
  CHECK(count(lost.err, "starting again, 1 of 1") == 0);
  CHECK(again.code == 0);  // nothing was lost before the first step
  CHECK(count(again.err, "starting again, 1 of 1") == 1);

  const Finished one = first.wait(), two = second.wait();
  INFO(one.err << two.err);
  CHECK(one.code == 7);
  CHECK(two.code == 137);
  CHECK(count(one.err, "not starting again: out/x: the workdir is gone\n") == 1);
  CHECK(count(one.err + two.err, "starting again, 1 of 1") == 0);
}

TEST_CASE("an elastic restart leaves out the slot that failed, not one whose rank ended slowly") {
  Worker launcher = launched({{"DIST_RANKS", "3"},
                              {"DIST_STEPS", "1000000 20"},
                              {"DIST_RESTARTS", "1"},
                              {"DIST_ELASTIC", "1:3"},
                              {"DIST_GRACE", "1"},
                              {"DIST_GPUS", "8"},
                              {"DIST_TELL", "1"}});
  CHECK(launcher.first_line() == "stepping");
  const int failing = process_of(launcher, 1), slow = process_of(launcher, 2);
  REQUIRE(failing > 0);
  REQUIRE(slow > 0);
  ::kill(slow, SIGSTOP);  // the launcher kills it when the grace period is over
  ::kill(failing, SIGKILL);
  const Finished ended = launcher.wait();
  INFO(ended.err);
  CHECK(ended.code == 0);
  CHECK(count(ended.err, "ended with code 137; starting again, 1 of 1, with 2 ranks here\n") == 1);
  CHECK(count(ended.out,
              "rank 0 of 2, node 0 of 1, 8 GPUs; rank 1 of 2, node 0 of 1, slot 2, 8 GPUs; \n") ==
        1);
}

TEST_CASE("an elastic restart leaves out the rank that differs, although the others end first") {
  const Variables common = {
      {"DIST_RESTARTS", "1"}, {"DIST_GRACE", "15"}, {"DIST_TELL", "1"}, {"BVTRAIN_SILENCE", "15"}};
  const auto start = [&](Variables more) {
    more.insert(common.begin(), common.end());
    return launched(more);
  };
  Worker three =
      start({{"DIST_RANKS", "3"}, {"DIST_FAULT", "differs:1:3"}, {"DIST_ELASTIC", "1:3"}});
  Worker pair =
      start({{"DIST_RANKS", "2"}, {"DIST_FAULT", "differs:-1:3"}, {"DIST_ELASTIC", "1:2"}});
  const Finished odd = three.wait(), unknown = pair.wait();
  INFO(odd.err << unknown.err);
  CHECK(odd.code == 0);
  CHECK(count(odd.err, "ended with code 1; starting again, 1 of 1, with 2 ranks here\n") == 1);
  CHECK(count(odd.out, "rank 0 of 2, node 0 of 1; rank 1 of 2, node 0 of 1, slot 2; \n") == 1);
  // Nobody knows which of two ranks is at fault, so none of them goes on alone.
  CHECK(unknown.code == 0);
  CHECK(count(unknown.err, "ended with code 7; starting again, 1 of 1, with 2 ranks here\n") == 1);
}

TEST_CASE("slots that have failed least often are used first") {
  CHECK(choose_slots({0, 0, 0}, 3) == std::vector<int>{0, 1, 2});
  CHECK(choose_slots({0, 1, 0, 0}, 3) == std::vector<int>{0, 2, 3});
  CHECK(choose_slots({1, 0, 0, 1}, 1) == std::vector<int>{1});
  CHECK(choose_slots({1, 2, 1, 3}, 2) == std::vector<int>{0, 2});  // all have failed
  CHECK(choose_slots({1, 1}, 2) == std::vector<int>{0, 1});        // a restart of all ranks
}

TEST_CASE("a signal before the ranks start again does not hide that one was killed") {
  const Hosts nodes({{"DIST_RANKS", "1"},
                     {"DIST_STEPS", "1000000"},
                     {"DIST_RESTARTS", "1"},
                     {"DIST_GRACE", "4"}});
  Worker first = nodes.start("0"), second = nodes.start("1");
  CHECK(first.first_line() == "stepping");
  const std::set<int> stopped = children_of(first.pid()), killed = children_of(second.pid());
  REQUIRE(stopped.size() == 1);
  REQUIRE(killed.size() == 1);
  ::kill(*stopped.begin(), SIGSTOP);  // node 0 waits for it until the grace period is over
  ::kill(*killed.begin(), SIGKILL);
  CHECK(gone(killed, 2));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // node 1 now waits for node 0
  second.kill(SIGUSR1);
  const Finished two = second.wait();
  INFO(two.err);
  CHECK(two.code == 137);
}

}  // namespace
}  // namespace bv::test
