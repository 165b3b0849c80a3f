// Ranks that never join, get stuck or are slow, and other clients on a run's ports. A run of one
// process opens no port. With the real binary.
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <random>

#include "lib/util/file.h"
#include "test/support/binary.h"
#include "test/support/sockets.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

const char* const kRankFaultsConfig = R"(
seed: 3
num_classes: 10
total_steps: 40
precision: float32
input:
  data: {name: digits, split: train}
  batch_size: 24
  pp: value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
model_name: cnn
model: {widths: [4], dense: 8}
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.003
log_training_steps: 1
ckpt_steps: 10
max_checkpoints_to_keep: 1000
)";

// Adds time-outs that are short enough for a test.
Environment quick(Environment more) {
  const Environment usual = {{"BVTRAIN_HEARTBEAT", "0.2"}, {"BVTRAIN_SILENCE", "15"}};
  more.insert(more.end(), usual.begin(), usual.end());
  return more;
}

struct RankFaultRuns {
  TempFolder dir;
  std::string config = dir / "c.yaml";
  RankFaultRuns() { write(config, kRankFaultsConfig); }
  std::vector<std::string> args(const std::string& workdir,
                                const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"--config", config, "--workdir", dir / workdir};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

// Returns the lines that begin with `start`.
std::string lines_with(const std::string& text, const std::string& start) {
  std::string found;
  for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    if (text.compare(at, start.size(), start) == 0) found += text.substr(at, end + 1 - at);
  return found;
}

// Returns the number of sockets of a run in the middle of its steps, and of the processes it
// started.
size_t sockets_while_training(const RankFaultRuns& f, const std::string& workdir,
                              const std::vector<std::string>& more,
                              const Environment& environment = {}) {
  std::vector<std::string> args = f.args(workdir, more);
  args.insert(args.end(), {"--set", "total_steps=100000000"});
  Child child(args, environment);
  size_t most = 0;
  REQUIRE(wait_for_file(f.dir / workdir + "/ckpt/step-10/manifest.json"));
  for (int look = 0; look < 20; ++look, ::usleep(10000)) {
    size_t sockets = sockets_of(child.pid()).size();
    for (const int rank : children_of(child.pid())) sockets += sockets_of(rank).size();
    most = std::max(most, sockets);
  }
  child.kill(SIGTERM);
  const Finished finished = child.wait();
  INFO(finished.err);
  CHECK(finished.code == 143);
  return most;
}

}  // namespace

TEST_CASE("a run of one process opens no socket; one of two does") {
  const RankFaultRuns f;
  CHECK(sockets_while_training(f, "plain", {}) == 0);
  CHECK(sockets_while_training(f, "one", {"--devices", "cpu:1"}) == 0);
  const Environment torchrun = {
      {"RANK", "0"},           {"WORLD_SIZE", "1"},          {"LOCAL_RANK", "0"},
      {"MASTER_PORT", "1234"}, {"MASTER_ADDR", "127.0.0.1"}, {"LOCAL_WORLD_SIZE", "1"}};
  CHECK(sockets_while_training(f, "torchrun", {}, torchrun) == 0);
  CHECK(sockets_while_training(f, "two", {"--devices", "cpu:2"}) > 0);
}

TEST_CASE("a run whose ranks do not all join ends with code 7 and names them") {
  const RankFaultRuns f;
  const std::string port = std::to_string(free_port()), at = "127.0.0.1:" + port;
  const Environment short_start = {{"BVTRAIN_STARTUP_TIMEOUT", "1.5"}};
  const auto node = [&](const char* rank) {
    return f.args("w",
                  {"--devices", "cpu:2", "--nnodes", "2", "--node-rank", rank, "--rendezvous", at});
  };
  const Finished first = run(node("0"), short_start);
  CHECK(first.code == 7);
  CHECK(first.err == "[distributed] node 1 did not join within 1.5 s\n");
  CHECK(first.seconds < kWatchdog);

  const Finished second = run(node("1"), short_start);
  CHECK(second.code == 7);
  CHECK(second.err ==
        at + ": error: no run's store answered there within 1.5 s: is the host of rank "
             "0 up, and can this host reach the port?\n");
  CHECK(second.seconds < kWatchdog);

  Environment outside = short_start;
  outside.insert(outside.end(), {{"RANK", "0"},
                                 {"WORLD_SIZE", "3"},
                                 {"LOCAL_RANK", "0"},
                                 {"LOCAL_WORLD_SIZE", "3"},
                                 {"MASTER_ADDR", "127.0.0.1"},
                                 {"MASTER_PORT", port},
                                 {"BVTRAIN_HEARTBEAT", "0.2"}});
  const Finished alone = run(f.args("w", {}), outside);
  CHECK(alone.code == 7);
  CHECK_THAT(alone.err,
             Catch::Matches(R"(\[distributed\] only some of 3 ranks joined within \d+(\.\d+)? s; )"
                            R"(missing: 1, 2\n)"));
  CHECK(alone.seconds < kWatchdog);
  CHECK_FALSE(exists(f.dir / "w"));
}

TEST_CASE("a rank that is alive but stuck ends the run after the step time-out, and is named") {
  const RankFaultRuns f;
  Child child(f.args("w", {"--devices", "cpu:3"}),
              quick({{"BVTRAIN_SLEEP_AT", "step.rank2:31:1000"}, {"BVTRAIN_STEP_TIMEOUT", "4"}}));
  const Finished finished = child.wait();
  INFO(finished.err);
  CHECK(finished.code == 7);
  // It is reported once: the launcher drops the other ranks' lines, which say the same.
  CHECK_THAT(
      lines_with(finished.err, "[distributed] "),
      Catch::Matches(R"(\[distributed\] rank 2 \([^ ]+, pid \d+\) is alive but kept the others )"
                     R"(waiting for \d+(\.\d+)? s; its last step was 31; it never joined )"
                     R"(collective \d+ \((control word|gradients 0)\)\n)"));
  CHECK(count(finished.err, "pid ") == 1);
  CHECK(finished.seconds < kWatchdog);  // the rank would sleep for 1000 s
  CHECK(processes_with(f.dir.path()).empty());
  // The run continues from the last commit.
  CHECK(exists(f.dir / "w/ckpt/step-30/manifest.json"));
  const Finished again = run(f.args("w", {"--devices", "cpu:3"}));
  INFO(again.err);
  CHECK(again.code == 0);
  CHECK(metric_rows(f.dir / "w").size() == 41);
}

TEST_CASE("a rank whose weights lose a bit ends the run and is named, and nothing of it is saved") {
  const RankFaultRuns f;
  const Environment flip = {{"BVTRAIN_FLIP_AT", "step.rank1:12"}};
  const Finished odd = run(f.args("w", {"--devices", "cpu:3"}), flip);
  INFO(odd.err);
  CHECK(odd.code == 1);  // of rank 1; the others end with 7
  CHECK_THAT(
      odd.err,
      Catch::Contains("[train] after step 13 the weights, buffers or optimizer state of rank 1 "
                      "(") &&
          Catch::Contains(" differ from those of the other ranks: a device (") &&
          Catch::Contains(
              " is faulty; they were equal after step 10; the same command "
              "continues from the newest checkpoint, of that step or an earlier one\n"));
  CHECK(metric_rows(f.dir / "w").size() == 14);
  CHECK(run(f.args("w", {"--devices", "cpu:3"})).code == 0);
  REQUIRE(run(f.args("calm", {"--devices", "cpu:3"})).code == 0);
  CHECK(repeatable_rows(f.dir / "w") == repeatable_rows(f.dir / "calm"));

  // Without logged steps the save finds it. Of two ranks none is the odd one. The save of step 8
  // waits until that of step 1 is done.
  const Finished pair = run(f.args("p", {"--devices", "cpu:2", "--set", "log_training_steps=1000",
                                         "--set", "ckpt_steps=4"}),
                            flip);
  INFO(pair.err);
  CHECK(pair.code == 7);
  CHECK_THAT(
      pair.err,
      Catch::Contains("[train] after step 16 the weights, buffers or optimizer state of rank 0 "
                      "(") &&
          Catch::Contains(" differ: the device of one of them ("));
  CHECK(exists(f.dir / "p/ckpt/step-1"));
  CHECK_FALSE(exists(f.dir / "p/ckpt/step-16"));

  // Without a workdir there is nothing to continue from.
  const Finished unsaved = run({"--config", f.config, "--devices", "cpu:2"}, flip);
  INFO(unsaved.err);
  CHECK(unsaved.code == 7);
  CHECK_THAT(unsaved.err, Catch::Contains(" or its memory is faulty\n"));
}

TEST_CASE("a slow rank gives one warning with its ratio, and the run continues") {
  const RankFaultRuns f;
  Child child(f.args("w", {"--devices", "cpu:3", "--set", "total_steps=60"}),
              quick({{"BVTRAIN_SLEEP_AT", "step.rank1:1+:0.1"}}));
  const Finished finished = child.wait();
  INFO(finished.err);
  CHECK(finished.code == 0);
  const std::string needle = " is slow: its steps take ";
  CHECK(count(finished.err, needle) == 1);
  const size_t at = finished.err.find(needle);
  REQUIRE(at != std::string::npos);
  const size_t line = finished.err.rfind('\n', at) + 1;
  CHECK_THAT(finished.err.substr(line, finished.err.find('\n', at) - line),
             Catch::Matches(
                 R"(W\d{4} \d\d:\d\d:\d\d warning: rank 1 \([^ ]+, pid \d+\) is slow: its steps )"
                 R"(take \d+\.\d times the median of the ranks)"));
  CHECK(std::stod(finished.err.substr(at + needle.size())) > 2);
  CHECK(finished.err.find("[distributed] ") == std::string::npos);
}

// On the store's port, and on those where Gloo waits for the other ranks.
TEST_CASE("garbage on a run's ports neither ends nor changes it") {
  const RankFaultRuns f;
  REQUIRE(run(f.args("calm", {"--devices", "cpu:2"})).code == 0);
  const int store = free_port();
  Child child(
      f.args("w", {"--devices", "cpu:2", "--rendezvous", "127.0.0.1:" + std::to_string(store)}),
      {{"BVTRAIN_SLEEP_AT", "step.rank0:11:4"}});
  std::vector<int> open;
  std::mt19937 random(7);
  const auto disturb = [&](int port) {
    const std::string greeting("\0\xCE\xF7\x85\x3C", 5);
    std::vector<std::string> said = {"", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                                     std::string(1, '\0'), greeting, greeting + '\xee'};
    for (int i = 0; i < 20; ++i) {
      std::string noise(i % 2 ? greeting : "");
      for (int k = 0; k < 2000; ++k) noise += static_cast<char>(random());
      said.push_back(noise);
    }
    int reached = 0;
    for (const std::string& text : said) {
      open.push_back(send_to_port(port, text));
      reached += open.back() >= 0;
      if (open.size() % 3 == 0) ::close(open.back()), open.pop_back();
    }
    return reached;
  };
  // From the very start, and in the middle of the steps.
  REQUIRE(wait_until([&] {
    open.push_back(send_to_port(store, "hello"));
    return open.back() >= 0;
  }));
  CHECK(disturb(store) > 0);
  REQUIRE(wait_for_file(f.dir / "w/ckpt/step-10/manifest.json"));
  CHECK(disturb(store) == 25);
  std::set<int> ports;
  for (const int rank : children_of(child.pid())) ports.merge(listening_ports(rank));
  CHECK(ports.size() >= 2);  // Gloo's
  for (const int port : ports) CHECK(disturb(port) == 25);
  const Finished finished = child.wait();
  for (const int fd : open) ::close(fd);
  INFO(finished.err);
  CHECK(finished.code == 0);
  CHECK(repeatable_rows(f.dir / "w") == repeatable_rows(f.dir / "calm"));
}

}  // namespace bv::test
