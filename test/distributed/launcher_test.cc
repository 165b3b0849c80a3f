// bvtrain's launcher with real ranks: exit codes, restarts, signals, and that no process survives.
#include "lib/distributed/launch/launcher.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "lib/distributed/launch/rank_process.h"
#include "test/distributed/workers.h"
#include "test/support/error.h"

namespace bv::test {
namespace {

constexpr double kGone = 20;  // seconds for killed processes to be gone

// Whether a process has a handler for the signal, or waits for it with the signal blocked.
bool handles(int pid, int signal) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if ((line.starts_with("SigCgt:") || line.starts_with("SigBlk:")) &&
        (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0)
      return true;
  }
  return false;
}

TEST_CASE("the launcher's ranks sum, and it returns 0") {
  const Finished ended = launched({{"DIST_RANKS", "3"}, {"DIST_CHILD", "sums"}}).wait();
  INFO(ended.err);
  CHECK(ended.code == 0);
  CHECK(ended.out == "ok\nlaunched: 0\n");  // only the first rank writes to stdout
  CHECK(ended.err.empty());
}

TEST_CASE("without /proc the launcher starts the path that it was started by") {
  CHECK(own_program() == "/proc/self/exe");
  const std::string other = own_program("/no/such/link");
  CHECK(std::filesystem::equivalent(other, "/proc/self/exe"));
  const std::string refused = error_of([] { own_program("/no/such/link", "/no/such/path"); });
  CHECK(refused ==
        "/no/such/link: error: cannot start more processes: this link to the program is missing; "
        "mount /proc");
  CHECK(error_of([] { own_program("/no/such/link", ""); }) == refused);
}

TEST_CASE("warnings of any rank are shown at once, and error lines of a rank that goes on later") {
  const std::string warning = "W1121 09:30:01 rank 1: warning: not saved: out/x: error: no space\n";
  const std::string short_warning = "warning: [input] a.jpg: error: truncated\n";
  const std::string error = "[input] b.jpg: truncated\n", after = "and so on\n";
  const std::string by = "[rank 1] ";
  const std::string shown = by + warning + by + short_warning + by + error + by + after;
  Variables variables = {{"DIST_RANKS", "2"},
                         {"DIST_SAYS", error + after + warning + short_warning}};
  Worker complete = launched(variables);
  variables.insert({{"DIST_STEPS", "1000000"}, {"DIST_HOLD", "0.1"}});
  Worker killed = launched(variables);
  const Finished whole = complete.wait();
  CHECK(whole.code == 0);
  CHECK(whole.err == shown);  // the error lines at the end
  CHECK(wait_until([&] { return killed.errors().starts_with(shown); }));
  killed.kill(SIGKILL);
  // Rank 0 may find the store lost just before it is killed with the launcher, and say so.
  CHECK(killed.wait().err.starts_with(shown));
}

TEST_CASE("an error line of several ranks is printed once, also if they go on") {
  const Finished ended = launched({{"DIST_RANKS", "4"},
                                   {"DIST_STEPS", "100"},
                                   {"DIST_HOLD", "0.1"},
                                   {"DIST_SAYS", "[input] b.jpg: truncated\n"}})
                             .wait();
  INFO(ended.err);
  CHECK(ended.code == 0);
  CHECK(count(ended.err, "[input] b.jpg: truncated\n") == 1);
}

// Whether another rank has found a rank dead before its launcher reported how it ended. The
// launcher has a second for that. A busy machine may hold it up for longer: the test then starts it
// again.
bool died_first(const Finished& ended) { return contains(ended.err, ") died; "); }

TEST_CASE("the launcher returns the code of the rank that failed first") {
  struct Case {
    std::string fault, rank;
    int code;
    std::string cause;
  };
  const std::string killed = R"(was killed by signal 9 \(SIGKILL\))";
  const std::vector<Case> cases = {
      {"exit", "1", 6, "ended with exit code 6"},
      {"error", "1", 5, "ended with exit code 5: out/x: error: no space left"},
      {"kill", "1", 137, killed},
      {"kill", "0", 137, killed}};
  const auto start = [](const Case& one) {
    return launched({{"DIST_RANKS", "2"}, {"DIST_FAULT", one.fault + ":" + one.rank + ":3"}});
  };
  std::vector<Worker> launchers;
  for (const Case& one : cases) launchers.push_back(start(one));
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto& [fault, rank, code, cause] = cases[i];
    Finished ended = launchers[i].wait();
    for (int again = 0; again < 3 && died_first(ended); ++again) ended = start(cases[i]).wait();
    INFO(fault << ": " << ended.err);
    CHECK(ended.code == code);
    // The group's line appears once, although several ranks report it.
    CHECK(count(ended.err, "[distributed] ") == 1);
    const std::string own = fault == "error" ? R"(\[rank 1\] out/x: error: no space left\n)" : "";
    CHECK_THAT(
        ended.err,
        Catch::Matches(R"(\[distributed\] rank )" + rank + R"( \([^ ]+, pid \d+\) )" + cause +
                       R"(; its last step was [12]; it never joined collective \d+)"
                       R"(( \(gradients\)|, which no rank had started yet)\n)" +
                       own));
  }
}

TEST_CASE("a stopped rank does not survive the run, also if it is alone on its host") {
  Variables variables = {
      {"DIST_RANKS", "2"}, {"DIST_FAULT", "stop:1:3"}, {"BVTRAIN_SILENCE", kShortSilence}};
  Worker launcher = launched(variables);
  variables["DIST_RANKS"] = "1";
  const Hosts nodes(variables);
  Worker first = nodes.start("0"), second = nodes.start("1");
  std::set<int> ranks, alone;
  CHECK(wait_until([&] {
    if (ranks.empty() && !launcher.output().empty()) ranks = children_of(launcher.pid());
    if (alone.empty() && !first.output().empty()) alone = children_of(second.pid());
    return !ranks.empty() && !alone.empty();
  }));
  CHECK(ranks.size() == 2);
  CHECK(alone.size() == 1);
  const Finished ended = launcher.wait();
  CHECK(ended.code == 7);
  CHECK(count(ended.err, "[distributed] rank 1 (") == 1);
  CHECK(gone(ranks, kGone));
  const Finished one = first.wait(), two = second.wait();
  INFO(one.err << two.err);
  CHECK(one.code == 7);
  CHECK(two.code == 7);
  CHECK(gone(alone, kGone));
}

TEST_CASE("a complete run succeeds although a rank is lost in the last barrier") {
  const std::vector<std::string> faults = {"leaves:1:-1", "hangs:1:-1", "hangs:2:-1"};
  std::vector<Worker> launchers;
  for (const std::string& fault : faults)
    launchers.push_back(launched({{"DIST_RANKS", "3"},
                                  {"DIST_FAULT", fault},
                                  {"DIST_RESTARTS", "1"},
                                  {"BVTRAIN_SILENCE", kShortSilence}}));
  Variables variables = {
      {"DIST_RANKS", "1"}, {"DIST_FAULT", "leaves:1:-1"}, {"DIST_RESTARTS", "1"}};
  const Hosts nodes(variables);
  Worker second = nodes.start("1"), first = nodes.start("0");
  for (size_t i = 0; i < faults.size(); ++i) {
    CHECK(launchers[i].first_line() == "stepping");
    const std::set<int> ranks = children_of(launchers[i].pid());
    const Finished ended = launchers[i].wait();
    INFO(faults[i] << ": " << ended.err);
    CHECK(ended.code == 0);
    CHECK(count(ended.err, "; the run was complete by then\n") >= 1);
    CHECK(count(ended.err, "starting again") == 0);
    CHECK(gone(ranks, kGone));
  }
  const Finished one = first.wait(), two = second.wait();
  INFO(one.err << two.err);
  CHECK(one.code == 0);
  CHECK(two.code == 7);  // its launcher cannot know that rank 0 has succeeded
  CHECK(count(one.err + two.err, "starting again") == 0);
}

TEST_CASE("a rank that SIGKILL does not end is left behind") {
  Worker launcher = launched({{"DIST_RANKS", "2"},
                              {"DIST_STEPS", "1000000 20"},
                              {"DIST_RESTARTS", "1"},
                              {"DIST_GRACE", "0.5"},
                              {"DIST_KILL_PERIOD", "1"}});
  CHECK(launcher.first_line() == "stepping");
  const int failing = process_of(launcher, 0), stuck = process_of(launcher, 1);
  REQUIRE(failing > 0);
  REQUIRE(stuck > 0);
  // The parent of a process cannot see its end before its tracer does.
  REQUIRE(::ptrace(PTRACE_SEIZE, stuck, nullptr, nullptr) == 0);
  ::kill(failing, SIGKILL);
  const Finished ended = launcher.wait();
  INFO(ended.err);
  CHECK(ended.code == 0);
  size_t warnings = 0;
  for (const char state : {'Z', 'R', 'S', 'D', 't'})  // Z, unless a busy machine delays its end
    warnings +=
        count(ended.err, fmt::format("warning: rank 1 (pid {}, state {}) did not end within "
                                     "1 s of SIGKILL; the launcher continues without it\n",
                                     stuck, state));
  CHECK(warnings == 1);
  CHECK(count(ended.err, "starting again, 1 of 1, with 2 ranks here\n") == 1);
  CHECK(::waitpid(stuck, nullptr, __WALL) == stuck);
}

TEST_CASE("ranks that a signal kills before they handle it do not leave the others waiting") {
  Finished one, two;
  for (int trial = 0; trial < 4 && (trial == 0 || died_first(one)); ++trial) {
    const Hosts nodes({{"DIST_RANKS", "1"}, {"DIST_STEPS", "1000000"}, {"BVTRAIN_SILENCE", "15"}});
    Worker first = nodes.start("0"), second = nodes.start("1");
    CHECK(first.first_line() == "stepping");
    second.kill(SIGTERM);  // passed on to its rank, which has no handler here
    two = second.wait(), one = first.wait();
  }
  INFO(one.err << two.err);
  CHECK(two.code == 143);
  CHECK(one.code == 7);
  CHECK(count(one.err, "was killed by signal 15 (SIGTERM)") == 1);
}

TEST_CASE("no rank survives a killed launcher") {
  Worker launcher = launched({{"DIST_RANKS", "2"}, {"DIST_STEPS", "1000000"}});
  CHECK(launcher.first_line() == "stepping");
  const std::set<int> ranks = children_of(launcher.pid());
  REQUIRE(ranks.size() == 2);
  launcher.kill(SIGKILL);
  launcher.wait();
  CHECK(gone(ranks, kGone));
}

TEST_CASE("a signal to the launcher or to any rank ends all of them in the same way") {
  // The last signal goes to a rank, the others to the launcher.
  const std::vector<std::pair<int, int>> signals = {
      {SIGTERM, 143}, {SIGINT, 130}, {SIGUSR1, 75}, {SIGTERM, 143}};
  std::vector<Worker> launchers;
  for (size_t i = 0; i < signals.size(); ++i)
    launchers.push_back(launched({{"DIST_RANKS", "2"}, {"DIST_CHILD", "until_signal"}}));
  for (const Worker& launcher : launchers) CHECK(launcher.first_line() == "stepping");
  for (size_t i = 0; i < signals.size(); ++i) {
    const auto ranks = children_of(launchers[i].pid());
    REQUIRE(ranks.size() == 2);
    ::kill(i + 1 < signals.size() ? launchers[i].pid() : *ranks.rbegin(), signals[i].first);
  }
  for (size_t i = 0; i < signals.size(); ++i) {
    const Finished ended = launchers[i].wait();
    INFO(ended.err);
    CHECK(ended.code == signals[i].second);
    CHECK(ended.err.empty());
  }
}

TEST_CASE("two launchers of two hosts make one group, and start it again together") {
  const Hosts nodes({{"DIST_RANKS", "2"}, {"DIST_FAULT", "kill:3:3"}, {"DIST_RESTARTS", "1"}});
  Worker second = nodes.start("1"), first = nodes.start("0");
  const Finished one = first.wait(), two = second.wait();
  INFO(one.err << two.err);
  CHECK(one.code == 0);
  CHECK(two.code == 0);
  for (const Finished* ended : {&one, &two})
    CHECK_THAT(ended->err, Catch::Contains("starting again, 1 of 1, with 2 ranks here"));
}

TEST_CASE("the code of a rank that crashes counts, not that of one that stops as it was asked to") {
  std::vector<Worker> launchers;
  for (const char* codes : {"75 6", "6 75"})
    launchers.push_back(launched({{"DIST_RANKS", "2"}, {"DIST_END_CODES", codes}}));
  for (const Finished& ended : wait_all(launchers)) {
    INFO(ended.err);
    CHECK(ended.code == 6);
  }
}

TEST_CASE("a launcher that waits for node 0, or for the others, can be stopped") {
  struct Case {
    const char* node;
    int signal, code;
  };
  const std::vector<Case> cases = {{"1", SIGTERM, 143}, {"0", SIGINT, 130}, {"1", SIGUSR1, 75}};
  std::vector<Worker> launchers;
  for (const Case& one : cases)
    launchers.push_back(Hosts(Variables{{"DIST_ANNOUNCES", "1"}}).start(one.node));
  for (size_t i = 0; i < cases.size(); ++i) {
    const Worker& launcher = launchers[i];
    CHECK(launcher.first_line() == "launching");  // before that a signal ends the process at once
    REQUIRE(wait_until([&] { return handles(launcher.pid(), cases[i].signal); }));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  for (size_t i = 0; i < cases.size(); ++i) launchers[i].kill(cases[i].signal);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Finished ended = launchers[i].wait();
    INFO(ended.err);
    CHECK(ended.code == cases[i].code);
    CHECK(ended.out.ends_with("launched: " + std::to_string(cases[i].code) + "\n"));
    CHECK(without_waits(ended.err).empty());
  }
}

TEST_CASE("a launcher whose node 0 is not there yet says for what it waits") {
  const Hosts nodes(Variables{});
  Hosts named(Variables{});
  named.all["DIST_RENDEZVOUS"] = "no.such.host.invalid:29400";
  Worker portless = nodes.start("1"), nameless = named.start("1"), first = named.start("0");
  const Finished refused = first.wait();  // its own name must be known
  CHECK(refused.code == 2);
  CHECK(contains(refused.err, "cannot resolve the host 'no.such.host.invalid': "));
  const std::string port = "waiting for node 0 at " + nodes.all.at("DIST_RENDEZVOUS");
  const std::string name = "waiting for the name of the host 'no.such.host.invalid' (100 s at ";
  CHECK(wait_until([&] { return contains(portless.errors(), port + " (100 s at most)\n"); }));
  CHECK(wait_until([&] { return contains(nameless.errors(), name); }));
  for (Worker* launcher : {&portless, &nameless}) {
    launcher->kill(SIGTERM);
    const Finished ended = launcher->wait();
    CHECK(ended.code == 143);
    CHECK(count(ended.err, "waiting for ") == 1);
    CHECK(without_waits(ended.err).empty());
  }
}

TEST_CASE("a launcher for a place that is taken is refused, and the run continues") {
  const Hosts nodes({{"DIST_RANKS", "1"}, {"DIST_CHILD", "until_signal"}});
  Worker second = nodes.start("1"), first = nodes.start("0");
  CHECK(first.first_line() == "stepping");
  const Finished again = nodes.start("1").wait();
  CHECK(again.code == 2);
  CHECK(again.err ==
        "--node-rank 1: error: node 1 has joined already: was this command given twice, or on two "
        "hosts?\n");
  first.kill(SIGTERM);  // passed on to its rank, which ends the step together with the other rank
  CHECK(first.wait().code == 143);
  CHECK(second.wait().code == 143);
}

TEST_CASE("the ranks of the other nodes end if node 0 is lost with its launcher") {
  const Hosts nodes({{"DIST_RANKS", "1"}, {"DIST_FAULT", "stop:1:3"}, {"DIST_GRACE", "1"}});
  Worker first = nodes.start("0"), second = nodes.start("1");
  CHECK(first.first_line() == "stepping");
  const std::set<int> ranks = children_of(second.pid());
  REQUIRE(ranks.size() == 1);
  CHECK(wait_until([&] { return state_of(*ranks.begin()).first == 'T'; }));  // it has stopped
  first.kill(SIGKILL);  // at once, before anybody has reported the stopped rank
  const Finished two = second.wait();
  CHECK(two.code == 7);
  CHECK(gone(ranks, kGone));
}

TEST_CASE("a run that starts with a number of ranks outside --elastic is refused") {
  for (const auto& [elastic, ranks, line] :
       {std::tuple{"3:4", "2", "--elastic 3:4: error: the run starts with 2 ranks\n"},
        {"1:2", "3", "--elastic 1:2: error: the run starts with 3 ranks\n"}}) {
    const Finished ended =
        launched({{"DIST_RANKS", ranks}, {"DIST_ELASTIC", elastic}, {"DIST_RESTARTS", "1"}}).wait();
    CHECK(ended.code == 2);
    CHECK(ended.err == line);
  }
}

TEST_CASE("a launcher whose limit on open files is too low for its ranks starts none") {
  const Finished ended = launched({{"DIST_RANKS", "3"}, {"DIST_FILES", "72"}}).wait();
  CHECK(ended.code == 2);
  CHECK(ended.err.starts_with("ulimit -n 72: error: 3 ranks need 73 open files in each process"));
  CHECK(ended.out.empty());
}

TEST_CASE("cores are divided among the ranks") {
  CHECK(divide_cpus({0, 1, 2, 3, 8}, 2) == std::vector<std::vector<int>>{{0, 1}, {2, 3, 8}});
  CHECK(divide_cpus({4, 5}, 2) == std::vector<std::vector<int>>{{4}, {5}});
  CHECK(divide_cpus({0, 1}, 3) == std::vector<std::vector<int>>{{}, {}, {}});
  CHECK_FALSE(allowed_cpus().empty());
}

TEST_CASE("a CPU quota is divided among the ranks, although each has its part of all CPUs") {
  CHECK(threads_of_rank(16, 16, 1) == 16);
  CHECK(threads_of_rank(8, 16, 2) == 8);
  CHECK(threads_of_rank(8, 4, 2) == 2);    // a quota of 4 cores on a host of 16
  CHECK(threads_of_rank(16, 32, 8) == 4);  // 32 of 128
  CHECK(threads_of_rank(1, 2, 3) == 1);
  CHECK(threads_of_rank(0, 2, 3) == 1);  // fewer CPUs than ranks
}

}  // namespace
}  // namespace bv::test
