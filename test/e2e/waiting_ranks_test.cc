// Phases in which the other ranks wait longer than a step takes, and ranks that fail while others
// wait. With the real binary.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <future>

#include "test/e2e/bad_input.h"
#include "test/support/sockets.h"

namespace bv::test {
namespace {

const char* const kWaitingRanksConfig = R"(
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
evals:
  mean:
    data: {name: digits, split: "test[:40]"}
    pp_fn: value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
    pred: loss
    batch_size: 16
    log_steps: 20
)";

// Once steps are measured, a collective may take 5 s. The phases in these tests take 7.
const Environment kQuick = {
    {"BVTRAIN_HEARTBEAT", "0.2"}, {"BVTRAIN_SILENCE", "6"}, {"BVTRAIN_STEP_TIMEOUT", "5"}};

struct WaitingRanksRun {
  TempFolder dir;
  std::string config = dir / "c.yaml";
  explicit WaitingRanksRun(const std::string& text = kWaitingRanksConfig) { write(config, text); }
  std::vector<std::string> args(int ranks, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"--config", config,      "--workdir",
                                    dir / "w",  "--devices", "cpu:" + std::to_string(ranks)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Runs two ranks, of which one sleeps. `where` is "point:arrival:seconds", as for
  // BVTRAIN_SLEEP_AT (lib/util/crash_point.h).
  Finished asleep(const std::string& where, const Environment& more = kQuick) const {
    Environment environment = more;
    environment.emplace_back("BVTRAIN_SLEEP_AT", where);
    return run(args(2), environment);
  }
};

void check_whole(const Finished& finished, const std::string& workdir) {
  INFO(finished.err);
  CHECK(finished.code == 0);
  CHECK(finished.seconds > 7);
  CHECK(finished.err.find("[distributed] ") == std::string::npos);
  CHECK(metric_rows(workdir).size() == 41);
}

// Eight pictures in two classes. Every step reads all of them, the first four on rank 0 of 2.
struct Pictures {
  std::string jpeg = golden_file("pp/img1.jpg");
  TempFolder dir;
  std::string config;

  Pictures() {
    if (jpeg.empty()) return;
    for (const char* folder : {"train", "test"})
      for (const char* name : {"cat", "dog"})
        for (int i = 0; i < 4; ++i) put(fmt::format("{}/{}/{}.jpg", folder, name, i), true);
    const std::string data = "{name: image_folder, data_dir: " + (dir / "f") + ", split: ";
    const std::string pp = R"('decode|resize(8)|value_range(-1, 1)|onehot(2, key="label", )"
                           R"(key_result="labels")|keep("image", "labels")')";
    config =
        "num_classes: 2\ntotal_steps: 20\nprecision: float32\ninput: {batch_size: 8, shuffle: "
        "false, data: " +
        data + "train}, pp: " + pp +
        "}\nmodel_name: cnn\nmodel: {widths: [4], dense: 8}\nloss: softmax_xent\n"
        "optax_name: scale_by_adam\nlr: 0.001\nlog_training_steps: 1\nema: {decay: 0.9}\n"
        "evals: {mean: {data: " +
        data + "test}, pp_fn: " + pp + ", pred: loss, ema: true, log_steps: 20}}\n";
  }
  std::string file(const std::string& name) const { return dir / ("f/" + name); }
  // A picture that is not good fails only when it is decoded.
  void put(const std::string& name, bool good) const {
    std::string bytes = read_file(jpeg);
    if (!good) std::fill(bytes.begin() + 20, bytes.end() - 2, 'x');
    write(file(name), bytes);
  }
};

}  // namespace

TEST_CASE("the last checkpoint may take longer than a step") {
  const WaitingRanksRun f;
  check_whole(f.asleep("ckpt.shard_written:1:7"), f.dir / "w");
  CHECK(exists(f.dir / "w/DONE"));
}

TEST_CASE("the last checkpoint of a run that is stopped may take longer than a step, too") {
  const WaitingRanksRun f;
  Environment environment = kQuick;
  environment.emplace_back("BVTRAIN_SLEEP_AT", "ckpt.shard_written:1:7");
  Child child(f.args(2, {"--set", "total_steps=100000000", "--set", "evals=null"}), environment);
  REQUIRE(wait_until([&] {
    return exists(f.dir / "w/metrics.jsonl") && read_file(f.dir / "w/metrics.jsonl").size() > 9000;
  }));
  child.kill(SIGTERM);
  const Finished finished = child.wait();
  INFO(finished.err);
  CHECK(finished.code == 143);
  CHECK(finished.seconds > 7);
  CHECK(finished.err.find("[distributed] ") == std::string::npos);
  CHECK(finished.err.find("the checkpoint is committed") != std::string::npos);
}

TEST_CASE("one rank's part of an evaluation may take longer than a step") {
  const WaitingRanksRun f;
  check_whole(f.asleep("eval.rank1:2:7"), f.dir / "w");  // the first evaluation is that of step 0
}

TEST_CASE("each part of a rank's start may take longer than the start-up time-out") {
  struct Part {
    std::string point;
    int sleeps;  // of 7 seconds
    WaitingRanksRun f = WaitingRanksRun();
    std::unique_ptr<Child> child = nullptr;
    std::future<Finished> end = {};
  };
  Part parts[] = {{"start.data", 1},    // before it looks through the data
                  {"start.load", 2},    // while it locks the workdir, and while it restores
                  {"start.files", 1}};  // right before it writes the run's first files
  for (Part& part : parts) {
    Environment environment = kQuick;
    environment.emplace_back("BVTRAIN_STARTUP_TIMEOUT", "6.5");
    environment.emplace_back("BVTRAIN_SLEEP_AT", part.point + ":1+:7");
    part.child = std::make_unique<Child>(part.f.args(2), environment);
  }
  // All at once: a child that is waited for after a slower one would seem to take as long.
  for (Part& part : parts)
    part.end = std::async(std::launch::async, [&child = *part.child] { return child.wait(); });
  for (Part& part : parts) {
    INFO(part.point);
    const Finished finished = part.end.get();
    check_whole(finished, part.f.dir / "w");
    CHECK(finished.seconds > 7 * part.sleeps);
  }
}

TEST_CASE("a rank that fails ends the run at once, even while a checkpoint is being written") {
  const Pictures pictures;
  if (pictures.jpeg.empty()) return;
  const WaitingRanksRun f(pictures.config);
  Child child(f.args(2, {"--set", "total_steps=100000000", "--set", "ckpt_steps=100000000", "--set",
                         "evals=null"}),
              {{"BVTRAIN_SLEEP_AT", "ckpt.shard_written:1:1000"}, {"BVTRAIN_STEP_TIMEOUT", "300"}});
  REQUIRE(wait_until([&] {
    return exists(f.dir / "w/ckpt/step-1.tmp") &&
           read_file(f.dir / "w/metrics.jsonl").size() > 14000;
  }));
  std::filesystem::remove(pictures.file("train/cat/0.jpg"));
  const Finished finished = child.wait();
  INFO(finished.err);
  CHECK(finished.code == 3);
  CHECK(finished.seconds < kWatchdog);  // it waits for no time-out
  CHECK(finished.err.find("[input] train/cat/0.jpg: can't be read: no such file (input.") !=
        std::string::npos);
  // The rows of all steps were written.
  const auto rows = metric_rows(f.dir / "w");
  REQUIRE(rows.size() > 20);
  CHECK(rows.back().count("training_loss") == 1);
  CHECK(processes_with(f.dir.path()).empty());
}

TEST_CASE("a rank that fails in an evaluator of averaged weights does not wait for the others") {
  const Pictures pictures;
  if (pictures.jpeg.empty()) return;
  const WaitingRanksRun f(pictures.config);
  Child child(f.args(2, {"--set", "total_steps=100000000", "--set", "sharding_strategy=zero1"}),
              {{"BVTRAIN_STEP_TIMEOUT", "300"}});
  REQUIRE(wait_until([&] {
    return exists(f.dir / "w/metrics.jsonl") && read_file(f.dir / "w/metrics.jsonl").size() > 9000;
  }));
  std::filesystem::remove(pictures.file("test/cat/0.jpg"));
  const Finished finished = child.wait();
  INFO(finished.err);
  CHECK(finished.code == 3);
  CHECK(finished.seconds < kWatchdog);  // it waits for no time-out
  CHECK(finished.err.find("[input] test/cat/0.jpg: can't be read: no such file (evals.mean.") !=
        std::string::npos);
}

TEST_CASE("skip_errors counts the examples that all ranks together could not read") {
  const Pictures pictures;
  if (pictures.jpeg.empty()) return;
  pictures.put("train/cat/3.jpg", false);
  pictures.put("train/dog/3.jpg", false);
  const auto end = [&](const char* skip, const char* shuffle) {
    const WaitingRanksRun f(pictures.config);
    return run(f.args(2, {"--set", "evals=null", "--set", std::string("input.skip_errors=") + skip,
                          "--set", std::string("input.shuffle=") + shuffle}));
  };
  const Finished one = end("1", "false");  // one on each rank
  CHECK(one.code == 3);
  const std::string line =
      " (2 examples failed on all ranks together; input.skip_errors allows 1)\n";
  CHECK(one.err.find(line) != std::string::npos);
  CHECK(one.err.find(line) == one.err.rfind(line));
  // With shuffling both ranks read both of them: that still counts as two.
  for (const char* enough : {"2", "true"}) {
    const Finished both = end(enough, "true");
    INFO(both.err);
    CHECK(both.code == 0);
  }
}

TEST_CASE("an evaluator's skip_errors counts the broken examples of all ranks, too") {
  const Pictures pictures;
  if (pictures.jpeg.empty()) return;
  pictures.put("test/cat/0.jpg", false);
  pictures.put("test/dog/1.jpg", false);
  const auto end = [&](int ranks, const char* skip) {
    const WaitingRanksRun f(pictures.config);
    return run(f.args(ranks, {"--set", std::string("evals.mean.skip_errors=") + skip}));
  };
  for (const int ranks : {1, 2}) {
    const Finished few = end(ranks, "1"), enough = end(ranks, "2");
    INFO(ranks << " processes: " << few.err << enough.err);
    CHECK(few.code == 3);
    CHECK(enough.code == 0);
  }
  // One broken example on each rank is within the budget.
  CHECK(end(2, "1").err.find("[input] 2 examples of an evaluation failed on all ranks together; "
                             "evals.mean.skip_errors allows 1\n") != std::string::npos);
}

TEST_CASE("an elastic restart uses a number of ranks that divides every batch") {
  const WaitingRanksRun f;
  // 3 ranks would divide the training batch of 24, but not the evaluator's batch of 16.
  const Finished finished =
      run(f.args(4, {"--elastic", "1:4", "--max-restarts", "1", "--set", "ckpt_steps=10"}),
          {{"BVTRAIN_CRASH_AT", "step.rank1:35"}});
  INFO(finished.err);
  CHECK(finished.code == 0);
  CHECK(finished.err.find("starting again, 1 of 1, with 2 ranks here") != std::string::npos);
  const Finished fewer =
      run(f.args(2, {"--elastic", "3:4", "--max-restarts", "1", "--set", "total_steps=50"}));
  CHECK(fewer.code == 2);
  CHECK(fewer.err == "--elastic 3:4: error: the run starts with 2 ranks\n");
  const Finished fixed =
      run(f.args(2, {"--elastic", "1:2", "--max-restarts", "1", "--set", "mesh=[[data, 2]]"}));
  CHECK(fixed.code == 2);
  CHECK(fixed.err.find("mesh: its sizes fix the number of processes, which --elastic changes") !=
        std::string::npos);
}

TEST_CASE("a run that waits for its other processes can be stopped") {
  const WaitingRanksRun f;
  const std::string port = std::to_string(free_port());
  std::vector<std::string> node =
      f.args(2, {"--nnodes", "2", "--node-rank", "1", "--rendezvous", "127.0.0.1:" + port});
  Child launcher(node);
  Child rank({"--config", f.config, "--workdir", f.dir / "v"}, {{"RANK", "1"},
                                                                {"WORLD_SIZE", "2"},
                                                                {"LOCAL_RANK", "1"},
                                                                {"LOCAL_WORLD_SIZE", "2"},
                                                                {"MASTER_ADDR", "127.0.0.1"},
                                                                {"MASTER_PORT", port}});
  ::sleep(2);
  for (Child* child : {&launcher, &rank}) child->kill(SIGTERM);
  for (Child* child : {&launcher, &rank}) {
    const Finished finished = child->wait();
    INFO(finished.err);
    CHECK(finished.code == 143);
    CHECK(finished.seconds < kWatchdog);  // far less than the start-up time-out
  }
}

}  // namespace bv::test
