// Groups of real processes: collectives, normal ends and failures.
#include "lib/distributed/group.h"

#include <ATen/ATen.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <sstream>

#include "lib/distributed/nccl_environment.h"
#include "lib/distributed/open_files.h"
#include "lib/distributed/watch/watch.h"
#include "test/distributed/workers.h"
#include "test/support/variable.h"

namespace bv::test {
namespace {

// Returns the lines that report a failure of the group.
std::vector<std::string> group_lines(const std::string& err) {
  std::vector<std::string> lines;
  size_t at = 0;
  for (size_t end; (end = err.find('\n', at)) != std::string::npos; at = end + 1)
    if (err.compare(at, 14, "[distributed] ") == 0) lines.push_back(err.substr(at, end - at));
  return lines;
}

// Checks that every rank but `culprit` ended with 7 and with one line that matches `pattern`.
void check_others(const std::vector<Finished>& ended, int culprit, const std::string& pattern) {
  for (size_t r = 0; r < ended.size(); ++r) {
    if (static_cast<int>(r) == culprit) continue;
    INFO("rank " << r << ": " << ended[r].err);
    CHECK(ended[r].code == 7);
    const auto lines = group_lines(ended[r].err);
    REQUIRE(lines.size() == 1);
    CHECK_THAT(lines[0], Catch::Matches(pattern));
    CHECK(ended[r].err == lines[0] + "\n");
  }
}

constexpr int kTrials = 4;

// Whether a rank has found the store lost instead of the failure. Rank 0 hosts the store and ends a
// second after the failure. A busy machine may hold up another rank for longer: the test then
// starts the group again.
bool lost_store(const std::vector<Finished>& ended) {
  return std::any_of(ended.begin(), ended.end(), [](const Finished& one) {
    return contains(one.err, "the run's store at ") && contains(one.err, "is lost");
  });
}

// Runs a group, again if a rank reports that the store is lost. Returns how its ranks ended.
std::vector<Finished> run_until_told(const std::function<std::vector<Worker>()>& start) {
  for (int trial = 1;; ++trial) {
    auto workers = start();
    auto ended = wait_all(workers);
    if (trial == kTrials || !lost_store(ended)) return ended;
  }
}

const std::string kWho = R"( \([^ ]+, pid \d+\) )";

TEST_CASE("a group of one opens nothing and calls nothing") {
  Group& group = Group::single();
  CHECK(group.rank() == 0);
  CHECK(group.size() == 1);
  at::Tensor tensor = at::arange(6.0), out = at::zeros({6});
  group.all_reduce_sum(tensor, "sum").wait();
  CHECK(tensor.equal(at::arange(6.0)));
  group.reduce_scatter_sum(out, tensor.to(at::kFloat), "scatter").wait();
  CHECK(out[5].item<float>() == 5);
  out.zero_();
  group.all_gather(out, tensor.to(at::kFloat), "gather").wait();
  CHECK(out[4].item<float>() == 4);
  group.broadcast(tensor, 0, "broadcast");
  const int64_t word[] = {3, -1};
  CHECK(group.all_max(word, "word") == std::vector<int64_t>{3, -1});
  at::Tensor before = at::zeros({6});
  group.send_to_next(before, tensor.to(at::kFloat), "send to next").wait();
  CHECK(before[4].item<float>() == 4);
  CHECK(group.broadcast_text("x", "text") == "x");
  CHECK(group.gather_text("x", "text") == std::vector<std::string>{"x"});
  group.barrier("barrier");
  group.note_step(3);
  { const Group::Phase phase(group, "checkpoint"); }
  CHECK(group.counts().collectives == 0);
  CHECK(group.counts().bytes_sent == 0);
  group.finish();
  Group::Pending().wait();
  RankLayout layout;
  layout.address = "no.such.host";  // not looked up
  CHECK(Group::join(layout, {})->size() == 1);
}

TEST_CASE("a planned group has a rank and a size, and refuses collectives") {
  const auto group = Group::planned(4);
  CHECK(group->rank() == 0);
  CHECK(group->size() == 4);
  CHECK_FALSE(group->open());
  at::Tensor one = at::zeros({1}), four = at::zeros({4});
  CHECK_THROWS_WITH(group->all_reduce_sum(one, "sum"),
                    Catch::Contains("sum: a collective of a group of 4 that is not open"));
  CHECK_THROWS_AS(group->reduce_scatter_sum(one, four, "a"), Error);
  CHECK_THROWS_AS(group->all_gather(four, one, "a"), Error);
  CHECK_THROWS_AS(group->broadcast(one, 0, "a"), Error);
  CHECK_THROWS_AS(group->send_to_next(one, one, "a"), Error);
  CHECK_THROWS_AS(group->broadcast_text("x", "a"), Error);
  CHECK_THROWS_AS(group->gather_text("x", "a"), Error);
  CHECK_THROWS_AS(group->barrier("a"), Error);
}

TEST_CASE("collectives of 1, 2 and 4 processes equal the sums") {
  for (const int size : {1, 2, 4}) {
    auto workers = start_ranks("sums", size);
    for (const Finished& ended : wait_all(workers)) {
      INFO(size << ": " << ended.err);
      CHECK(ended.code == 0);
      CHECK(ended.out == "ok\n");
      CHECK(ended.err.empty());
    }
  }
}

// A rank that does not detect another's normal end waits until it counts as silent.
TEST_CASE("20 normal ends: no rank waits for a time-out") {
  constexpr double kSilence = 50, kLimit = 25;  // seconds; an end takes a few tenths
  for (const int size : {1, 2, 3, 4}) {
    std::string ports;
    for (int life = 0; life < 5; ++life) ports += (life ? " " : "") + std::to_string(free_port());
    auto workers = start_ranks(
        "lives", size, {{"DIST_PORTS", ports}, {"BVTRAIN_SILENCE", std::to_string(kSilence)}});
    for (Worker& worker : workers) {
      const Finished ended = worker.wait();
      INFO(size << ": " << ended.err);
      CHECK(ended.code == 0);
      CHECK(ended.err.empty());
      // For each life the bits of its sums and the duration of finish() in seconds. The last life
      // has the time of the last step instead, so that the end of the process is also measured.
      std::istringstream said(ended.out);
      std::string bits, first;
      double seconds = 0;
      for (int life = 0; life < 4; ++life) {
        REQUIRE(said >> bits >> seconds);
        if (life == 0) first = bits;
        CHECK(bits == first);  // groups of one size are bit-identical
        CHECK(seconds < kLimit);
      }
      REQUIRE(said >> bits);
      REQUIRE(said >> seconds);
      CHECK(now() - seconds < kLimit);
    }
  }
}

TEST_CASE("a killed rank is named by all others") {
  auto first_killed = start_ranks("steps", 3, {{"DIST_FAULT", "kill:0:5"}});
  const auto last_ended = run_until_told([] {
    return start_ranks("steps", 3, {{"DIST_FAULT", "kill:2:5"}});
  });
  for (const int culprit : {0, 2}) {
    const auto ended = culprit == 0 ? wait_all(first_killed) : last_ended;
    CHECK(ended[static_cast<size_t>(culprit)].code == 128 + SIGKILL);
    // Rank 0 hosts the store, which is lost with it.
    const std::string cause =
        culprit == 0 ? R"((died|hosts the run's store at 127\.0\.0\.1:\d+, which is lost))"
                     : "died";
    // On a busy machine the store may be lost before another rank has started the collective.
    const std::string what =
        culprit == 0 ? R"(( \(gradients\)|, which no rank had started yet))" : R"( \(gradients\))";
    check_others(ended, culprit,
                 R"(\[distributed\] rank )" + std::to_string(culprit) + kWho + cause +
                     R"(; its last step was 4; it never joined collective \d+)" + what);
  }
}

TEST_CASE("a stopped rank is named once it counts as silent, and ends when it continues") {
  std::vector<Worker> workers;
  std::vector<Finished> ended;
  for (int trial = 0; trial < kTrials && (trial == 0 || lost_store(ended)); ++trial) {
    workers =
        start_ranks("steps", 3, {{"DIST_FAULT", "stop:2:5"}, {"BVTRAIN_SILENCE", kShortSilence}});
    ended.clear();
    for (const size_t r : {0, 1}) ended.push_back(workers[r].wait());
  }
  check_others(ended, -1,
               R"(\[distributed\] rank 2)" + kWho +
                   R"(sent no heartbeat for \d+(\.\d+)? s; its last step was 4; it never joined )"
                   R"(collective 7 \(gradients\))");
  // The store on rank 0 is gone by now.
  workers[2].kill(SIGCONT);
  const Finished late = workers[2].wait();
  CHECK(late.code == 7);
  CHECK(group_lines(late.err).size() == 1);
}

TEST_CASE("ranks in the last barrier of a complete run end with 0 if another one is lost") {
  auto leaving = start_ranks("steps", 3, {{"DIST_FAULT", "leaves:2:-1"}});
  auto hanging =
      start_ranks("steps", 3, {{"DIST_FAULT", "hangs:2:-1"}, {"BVTRAIN_SILENCE", kShortSilence}});
  const std::string done = "; the run was complete by then";
  for (const size_t r : {0, 1}) {
    for (auto* ranks : {&leaving, &hanging}) {
      const Finished ended = (*ranks)[r].wait();
      INFO(ended.err);
      CHECK(ended.code == 0);
      const auto lines = group_lines(ended.err);
      REQUIRE(lines.size() == 1);
      CHECK(lines[0].ends_with(done));
    }
  }
  const Finished left = leaving[2].wait();
  CHECK(left.code == 7);  // it did not come to the barrier
  hanging[2].kill(SIGKILL);
  hanging[2].wait();
}

TEST_CASE("a rank that ends with an error tells the others why") {
  const auto ended = run_until_told([] {
    return start_ranks("steps", 3, {{"DIST_FAULT", "error:1:2"}});
  });
  CHECK(ended[1].code == 5);
  CHECK(ended[1].err == "out/x: error: no space left\n");
  check_others(
      ended, 1,
      R"(\[distributed\] rank 1)" + kWho +
          R"(ended with exit code 5: out/x: error: no space left; its last step was 1; )"
          R"(it never joined collective 4( \(gradients\)|, which no rank had started yet))");
}

TEST_CASE("a rank that fails too but takes longer to write its rows keeps its own exit code") {
  auto workers = start_ranks("all_fail", 3, {{"BVTRAIN_SILENCE", "20"}});
  for (const Finished& ended : wait_all(workers)) {
    CHECK(ended.code == 5);
    CHECK(group_lines(ended.err).empty());
  }
}

TEST_CASE("a signal that came to all ranks is no failure, whichever looks for it first") {
  auto ranks = start_ranks("slow_to_look", 2);
  for (const Worker& rank : ranks) CHECK(rank.first_line() == "joined");
  for (const Worker& rank : ranks) rank.kill(SIGUSR1);
  for (const Finished& ended : wait_all(ranks)) {
    CHECK(ended.code == 75);
    CHECK(group_lines(ended.err).empty());
  }
}

TEST_CASE("a rank that is alive but does not join a collective is named after the step time-out") {
  // A long phase may take longer than a step.
  auto in_phase =
      start_ranks("steps", 2, {{"DIST_FAULT", "phase:1:6"}, {"BVTRAIN_STEP_TIMEOUT", "2"}});
  const auto late = run_until_told([] {
    return start_ranks("steps", 3, {{"DIST_FAULT", "late:1:6"}, {"BVTRAIN_STEP_TIMEOUT", "2"}});
  });
  check_others(late, 1,
               R"(\[distributed\] rank 1)" + kWho +
                   R"(is alive but kept the others waiting for \d+(\.\d+)? s; its last step was )"
                   R"(5; it never joined collective 8 \(gradients\))");
  CHECK(late[1].code == 7);  // it finds that it was named
  for (const Finished& ended : wait_all(in_phase)) {
    CHECK(ended.code == 0);
    CHECK(ended.err.empty());
  }
}

TEST_CASE("if the devices of all ranks hang, the run ends and blames no finished collective") {
  const auto all = run_until_told([] {
    auto ranks =
        start_ranks("steps", 2, {{"DIST_DEVICE_HANGS", "6"}, {"BVTRAIN_STEP_TIMEOUT", "2"}});
    // Two other ranks block outside of any wait that they tell of.
    auto silent = start_ranks(
        "steps", 2,
        {{"DIST_HANGS", "6"}, {"BVTRAIN_STEP_TIMEOUT", "2"}, {"BVTRAIN_PHASE_TIMEOUT", "2"}});
    for (Worker& rank : silent) ranks.push_back(std::move(rank));
    return ranks;
  });
  for (size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i].code == 7);
    const std::string since = i < 2 ? R"(8 \(inner\), and this one waits for its device: )"
                                      R"(does a device or a collective hang\?\n)"
                                    : R"(7 \(gradients\): does a device hang\?\n)";
    CHECK_THAT(all[i].err, Catch::Matches(R"(\[distributed\] no rank has made progress for )"
                                          R"(\d+(\.\d+)? s, since collective )" +
                                          since));
  }
}

TEST_CASE("a slow rank is warned about once, by rank 0") {
  auto workers = start_ranks(
      "steps", 3,
      {{"DIST_FAULT", "slow:1:-1"}, {"DIST_STEPS", "50"}, {"BVTRAIN_HEARTBEAT", "0.2"}});
  const auto ended = wait_all(workers);
  for (const Finished& one : ended) CHECK(one.code == 0);
  const std::string needle = "is slow: its steps take ";
  const size_t found = ended[0].err.find(needle);
  INFO(ended[0].err);
  REQUIRE(found != std::string::npos);
  CHECK(ended[0].err.find("rank 1 (") < found);
  CHECK(ended[0].err.find(needle, found + 1) == std::string::npos);
  const double ratio = std::stod(ended[0].err.substr(found + needle.size()));
  CHECK(ratio > 2);
  CHECK(ratio < 12);
  CHECK(ended[1].err.empty());
  CHECK(ended[2].err.empty());
}

TEST_CASE("ranks that never join are named at the start") {
  Variables variables = rank_variables(1, 4, free_port());
  variables["BVTRAIN_STARTUP_TIMEOUT"] = "0.3";
  Worker storeless("steps", variables);
  const auto some = run_until_told([] {
    const int port = free_port();
    std::vector<Worker> ranks;
    ranks.emplace_back("wait_for_others", rank_variables(2, 4, port));  // would wait for longer
    CHECK(ranks[0].first_line() == "waiting");
    Variables of_first = rank_variables(0, 4, port);
    of_first["BVTRAIN_STARTUP_TIMEOUT"] = "3";
    ranks.emplace_back("steps", of_first);
    return ranks;
  });
  for (const Finished& ended : some) {
    CHECK(ended.code == 7);
    CHECK_THAT(ended.err, Catch::Matches(R"(\[distributed\] only some of 4 ranks joined within )"
                                         R"(\d+(\.\d+)? s; missing: 1, 3\n)"));
  }

  const Finished alone = storeless.wait();
  CHECK(alone.code == 7);
  CHECK_THAT(
      alone.err,
      Catch::Matches(R"(127\.0\.0\.1:\d+: error: no run's store answered there within 0\.3 )"
                     R"(s: is the host of rank 0 up, and can this host reach the port\?\n)"));
}

TEST_CASE("a rank that waits for the others at the start can be stopped, and tells them") {
  // One rank that finds no store, one that hosts it, and one of a group of three that lacks a rank.
  const std::string role = "wait_for_others";
  Worker storeless(role, rank_variables(1, 2, free_port()));
  Worker host(role, rank_variables(0, 2, free_port()));
  const int port = free_port();
  Worker first(role, rank_variables(0, 3, port)), second(role, rank_variables(1, 3, port));
  for (const Worker* worker : {&storeless, &host, &first, &second})
    CHECK(worker->first_line() == "waiting");
  Store store = store_of(find_rank_layout({}, rank_variables(1, 3, port)));
  CHECK(wait_until([&] { return store.has({heartbeat_key(0), heartbeat_key(1)}); }));
  storeless.kill(SIGTERM);
  host.kill(SIGUSR1);
  second.kill(SIGINT);
  const std::vector<std::pair<Worker*, int>> codes = {
      {&storeless, 143}, {&host, 75}, {&second, 130}, {&first, 7}};
  for (const auto& [worker, code] : codes) {
    const Finished ended = worker->wait();
    INFO(ended.err);
    CHECK(ended.code == code);
    CHECK(without_waits(ended.err) ==
          (code == 7 ? "[distributed] rank 1 ended with exit code 130: stopped by a signal "
                       "before it joined the group\n"
                     : ""));
  }
}

TEST_CASE("ranks of other launchers say for what they wait at the start") {
  Variables of_second = rank_variables(1, 2, free_port());
  of_second["LOCAL_RANK"] = "0";
  of_second["LOCAL_WORLD_SIZE"] = "1";
  const std::string at = "rank 0 at 127.0.0.1:" + of_second["MASTER_PORT"];
  Variables of_third = of_second;
  of_third["MASTER_ADDR"] = "no.such.host.invalid";
  const std::string role = "wait_for_others";
  Worker storeless(role, of_second), nameless(role, of_third);
  Worker host(role, rank_variables(0, 2, free_port()));
  for (const auto& [worker, line] :
       {std::pair<Worker*, std::string>{&storeless, "waiting for " + at + " (100 s at most)\n"},
        {&nameless, "waiting for the name of the host 'no.such.host.invalid' (100 s at most): "},
        {&host, "waiting for the other ranks (100 s at most)\n"}}) {
    CHECK(wait_until(
        [&, waiting = worker, text = line] { return contains(waiting->errors(), text); }));
    worker->kill(SIGTERM);
    const Finished ended = worker->wait();
    CHECK(ended.code == 143);
    CHECK(without_waits(ended.err).empty());
  }
}

TEST_CASE("a limit on open files that is too low is refused before anything is opened") {
  auto workers = start_ranks("steps", 3, {{"DIST_FILES", "72"}});
  for (const Finished& ended : wait_all(workers)) {
    CHECK(ended.code == 2);
    CHECK(ended.err ==
          "ulimit -n 72: error: 3 ranks need 73 open files in each process: raise this host's hard "
          "limit (ulimit -Hn, LimitNOFILE=)\n");
  }
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 80);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  raise_open_files();
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK(limit.rlim_cur == limit.rlim_max);
}

TEST_CASE("start checks name the key, the ranks and both values") {
  auto workers = start_ranks("agree", 4);
  for (const Finished& ended : wait_all(workers)) {
    CHECK(ended.code == 2);
    CHECK(ended.err ==
          "config: error: ranks 2, 3 have 'b1', rank 0 has 'a0'\n"
          "input.data: error: rank 1 has '59', rank 0 has '60'\n");
  }
}

TEST_CASE("c10d handles no errors of NCCL, also if torchrun asks it to") {
  const Variable by_torchrun("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  const Variable by_user("TORCH_NCCL_DUMP_ON_TIMEOUT", "1"), unset("NCCL_GRAPH_REGISTER", nullptr);
  set_nccl_environment();
  const auto value = [](const char* name) { return std::string(std::getenv(name)); };
  CHECK(value("TORCH_NCCL_ASYNC_ERROR_HANDLING") == "0");
  CHECK(value("TORCH_NCCL_DUMP_ON_TIMEOUT") == "1");
  CHECK(value("NCCL_GRAPH_REGISTER") == "0");
}

TEST_CASE("time-outs come from the environment") {
  const GroupOptions options = group_options({{"BVTRAIN_STARTUP_TIMEOUT", "30"},
                                              {"BVTRAIN_STEP_TIMEOUT", "90.5"},
                                              {"BVTRAIN_SILENCE", "9"},
                                              {"BVTRAIN_HEARTBEAT", "3"},
                                              {"BVTRAIN_PHASE_TIMEOUT", "7"}});
  CHECK(options.timeouts.startup == 30);
  CHECK(options.timeouts.least_step == 90.5);
  CHECK(options.timeouts.silence == 9);
  CHECK(options.timeouts.heartbeat == 3);
  CHECK(options.timeouts.phase == 7);
  for (const char* bad : {"0", "-1", "x", "5s", "nan", "inf", "1e9"})
    CHECK_THROWS_WITH(
        group_options({{"BVTRAIN_SILENCE", bad}}),
        "BVTRAIN_SILENCE=" + std::string(bad) + ": error: expected seconds, a positive number");
  CHECK_THROWS_WITH(group_options({{"BVTRAIN_SILENCE", "5"}}),
                    "BVTRAIN_SILENCE: error: must be at least three heartbeats (BVTRAIN_HEARTBEAT, "
                    "now 2 s)");
}

}  // namespace
}  // namespace bv::test
