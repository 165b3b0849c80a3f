// Hosts that are lost during a run. Each host is a launcher: one that is killed takes its ranks
// with it, and one that is stopped comes back.
#include <signal.h>

#include "test/distributed/workers.h"

namespace bv::test {
namespace {

void signal_host(const Worker& launcher, int signal) {
  const std::set<int> ranks = children_of(launcher.pid());
  launcher.kill(signal);
  for (const int rank : ranks) ::kill(rank, signal);
}

TEST_CASE("a lost host ends a run without --elastic, and one that needs more ranks than are left") {
  Variables variables = {{"DIST_RANKS", "1"},
                         {"DIST_STEPS", "1000000"},
                         {"DIST_RESTARTS", "3"},
                         {"DIST_ANSWER", "1.5"}};
  const Hosts fixed(variables);
  variables["DIST_RANKS"] = "2";
  variables["DIST_ELASTIC"] = "3:4";
  const Hosts elastic(variables);
  Worker fixed_first = fixed.start("0"), fixed_second = fixed.start("1");
  Worker elastic_first = elastic.start("0"), elastic_second = elastic.start("1");
  for (const Worker* first : {&fixed_first, &elastic_first})
    CHECK(first->first_line() == "stepping");
  for (const Worker* second : {&fixed_second, &elastic_second}) second->kill(SIGKILL);
  const Finished one = fixed_first.wait(), two = elastic_first.wait();
  INFO(one.err << two.err);
  CHECK(one.code == 7);
  CHECK(count(one.err,
              "node 1 did not answer; not starting again: a run continues without a node only with "
              "--elastic\n") == 1);
  CHECK(two.code == 7);
  CHECK(
      count(two.err,
            "node 1 did not answer; not starting again: 2 ranks are left, but --elastic 3:4 needs "
            "3\n") == 1);
  CHECK(count(two.err, "warning: ") == 1);
}

TEST_CASE("with --elastic the others start again without the lost host") {
  const Hosts nodes({{"DIST_RANKS", "2"},
                     {"DIST_STEPS", "1000000 20"},
                     {"DIST_RESTARTS", "3"},
                     {"DIST_ELASTIC", "1:4"},
                     {"DIST_TELL", "1"},
                     {"DIST_ANSWER", "1.5"}});
  Worker first = nodes.start("0"), second = nodes.start("1");
  CHECK(first.first_line() == "stepping");
  second.kill(SIGKILL);
  const Finished one = first.wait();
  INFO(one.err);
  CHECK(one.code == 0);
  CHECK(count(one.err, "node 1 did not answer; starting again without it\n") == 1);
  CHECK(count(one.err, "starting again, 1 of 3, with 2 ranks here\n") == 1);
  CHECK(count(one.err, "warning: ") == 2);
  CHECK(one.out ==
        "stepping\nrank 0 of 2, node 0 of 1; rank 1 of 2, node 0 of 1; \nstepping\nlaunched: 0\n");
}

TEST_CASE("a lost host is waited for only once") {
  const Hosts nodes({{"DIST_RANKS", "2"},
                     {"DIST_STEPS", "1000000 20"},
                     {"DIST_FAULT", "kill:3:3:1"},  // after the first restart, a rank of node 2
                     {"DIST_RESTARTS", "3"},
                     {"DIST_ELASTIC", "1:6"},
                     {"DIST_TELL", "1"},
                     {"DIST_ANSWER", "7"}},
                    3);
  Worker first = nodes.start("0"), second = nodes.start("1"), third = nodes.start("2");
  CHECK(first.first_line() == "stepping");
  second.kill(SIGKILL);
  const Finished one = first.wait(), three = third.wait();
  INFO(one.err << three.err);
  CHECK(one.code == 0);
  CHECK(three.code == 0);
  CHECK(count(one.err, "did not answer") == 1);
  CHECK(count(one.err, "node 1 did not answer; starting again without it\n") == 1);
  for (const Finished* ended : {&one, &three})
    CHECK(count(ended->err, "starting again, 1 of 3, with 2 ranks here\n") == 1);
  CHECK(count(one.err, "ended with code 7; starting again, 2 of 3, with 2 ranks here\n") == 1);
  CHECK(count(three.err, "ended with code 137; starting again, 2 of 3, with 1 rank here\n") == 1);
  CHECK(count(one.out, "rank 2 of 4, node 1 of 2; rank 3 of 4, node 1 of 2; \n") == 1);
  CHECK(count(one.out, "rank 1 of 3, node 0 of 2; rank 2 of 3, node 1 of 2; \n") == 1);
}

TEST_CASE("a rank that is stopped while another host is lost does not delay its own host") {
  const Hosts nodes({{"DIST_RANKS", "1"},
                     {"DIST_STEPS", "1000000 20"},
                     {"DIST_RESTARTS", "1"},
                     {"DIST_ELASTIC", "1:3"},
                     {"DIST_GRACE", "1"},
                     {"DIST_ANSWER", "6"}},
                    3);
  Worker first = nodes.start("0"), second = nodes.start("1"), third = nodes.start("2");
  CHECK(first.first_line() == "stepping");
  const std::set<int> ranks = children_of(second.pid());
  REQUIRE(ranks.size() == 1);
  ::kill(*ranks.begin(), SIGSTOP);
  third.kill(SIGKILL);  // before the stopped rank counts as silent, so that this one is reported
  const Finished one = first.wait(), two = second.wait();
  INFO(one.err << two.err);
  CHECK(one.code == 0);
  CHECK(two.code == 0);
  CHECK(count(one.err, "node 2 did not answer; starting again without it\n") == 1);
  CHECK(gone(ranks, 1));
}

TEST_CASE("a host that was given up and comes back does not disturb the others") {
  const Hosts nodes({{"DIST_RANKS", "2"},
                     {"DIST_CHILD", "until_signal"},
                     {"DIST_RESTARTS", "3"},
                     {"DIST_ELASTIC", "1:4"},
                     {"DIST_ANSWER", "1.5"},
                     {"BVTRAIN_SILENCE", kShortSilence}});
  Worker first = nodes.start("0"), second = nodes.start("1");
  CHECK(first.first_line() == "stepping");
  const std::set<int> ranks = children_of(second.pid());
  REQUIRE(ranks.size() == 2);
  signal_host(second, SIGSTOP);
  CHECK(wait_until([&] { return count(first.output(), "stepping") >= 2; }));
  CHECK(first.output() == "stepping\nstepping\n");
  CHECK_FALSE(gone(ranks, 0));
  signal_host(second, SIGCONT);
  const Finished two = second.wait();
  CHECK(gone(ranks, 20));
  first.kill(SIGTERM);
  const Finished one = first.wait();
  INFO(one.err << two.err);
  CHECK(two.code == 7);
  CHECK(two.err.ends_with("[distributed] the other nodes continued without this one (node 1)\n"));
  CHECK(count(two.err, "warning: ") == 0);
  CHECK(one.code == 143);  // all its ranks agreed on the signal without interference
  CHECK(count(one.err, "node 1 did not answer; starting again without it\n") == 1);
  CHECK(count(one.err, "warning: ") == 2);
}

}  // namespace
}  // namespace bv::test
