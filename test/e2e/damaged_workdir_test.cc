// A run whose workdir is damaged or incomplete continues from what is intact, or reports in one
// line what is missing and what to do. With the real binary.
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/manifest.h"
#include "lib/util/file.h"
#include "lib/util/temporary_file.h"
#include "test/support/binary.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

namespace fs = std::filesystem;

const char* const kDamagedRunConfig = R"(
num_classes: 10
total_steps: 12
precision: float32
input:
  data: {name: digits, split: train}
  batch_size: 16
  pp: value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
model_name: cnn
model: {widths: [8], dense: 16}
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.003
log_training_steps: 2
ckpt_steps: 4
)";

struct DamagedRun {
  TempFolder dir;
  std::string workdir = dir / "w";
  DamagedRun() { write(dir / "c.yaml", kDamagedRunConfig); }
  Finished train(const std::vector<std::string>& more = {},
                 const Environment& environment = {}) const {
    return run(args(more), environment);
  }
  std::vector<std::string> args(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"--config", dir / "c.yaml", "--workdir", workdir};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Trains until the checkpoint of step 8 is committed, and dies.
  void train_and_die() const {
    const Finished killed = train({}, {{"BVTRAIN_CRASH_AT", "ckpt.last_replaced:3"}});
    INFO(killed.err);
    REQUIRE(killed.code == 137);
    REQUIRE(Checkpointer::load(workdir).step == 8);
  }
  // Trains to the end. Returns what was printed.
  std::string finish() const {
    const Finished finished = train();
    INFO(finished.err);
    CHECK(finished.code == 0);
    CHECK(Checkpointer::load(workdir).step == 12);
    return finished.err;
  }
  void refused(const std::string& line) const {
    const Finished finished = train();
    // After a kill, a line precedes it: this start takes over the workdir.
    CHECK(finished.err.ends_with(line + "\n"));
    CHECK(count(finished.err, "\n") <= 2);
    CHECK(finished.code == 2);
  }
  std::vector<std::string> steps() const {
    std::vector<std::string> steps;
    for (const TextRow& row : metric_rows(workdir)) steps.push_back(row.at("step"));
    return steps;
  }
};

}  // namespace

TEST_CASE("a run whose checkpoints are gone does not silently start again") {
  const DamagedRun f;
  f.train_and_die();
  const std::vector<std::string> steps = f.steps();
  fs::rename(f.workdir + "/ckpt", f.dir / "ckpt");
  f.refused(f.workdir + ": error: metrics.jsonl has rows up to step " + steps.back() +
            ", but the folder ckpt/ is gone, so the run cannot continue; put ckpt/ back, or remove "
            "metrics.jsonl to start the run from the beginning, or choose another --workdir");
  CHECK(f.steps() == steps);
  write(f.workdir + "/ckpt/LAST", "step-8\n");
  f.refused(f.workdir +
            "/ckpt: error: LAST names step-8, but there is no checkpoint here, so the run cannot "
            "continue; put its folder back, or remove LAST and metrics.jsonl to start the run from "
            "the beginning, or "
            "choose another --workdir");
  CHECK(f.steps() == steps);
  fs::remove(f.workdir + "/ckpt/LAST");
  f.refused(f.workdir +
            "/ckpt: error: run.json says that the run has saved a checkpoint, but there is none "
            "here, so the run cannot continue; put its folder back, or remove metrics.jsonl to "
            "start the run from the beginning, or choose another --workdir");
  CHECK(f.steps() == steps);
  fs::remove(f.workdir + "/metrics.jsonl");
  f.finish();
  CHECK(f.steps() == std::vector<std::string>{"0", "1", "2", "4", "6", "8", "10", "12"});
}

TEST_CASE("a run whose workdir is moved away ends, and leaves nothing where it was") {
  const bool restarts = GENERATE(false, true);
  const DamagedRun f;
  std::vector<std::string> flags = {"--set", "total_steps=10000000"};
  if (restarts) flags.insert(flags.end(), {"--devices", "cpu:2", "--max-restarts", "1"});
  Child child(f.args(flags), {{"BVTRAIN_RETRY_AFTER", "0"}});
  REQUIRE(wait_for_file(f.workdir + "/ckpt/LAST"));
  const std::string moved = f.dir / "moved";
  fs::rename(f.workdir, moved);
  fs::create_directory(f.workdir);  // as an unmounted file system leaves
  const Finished ended = child.wait(kWatchdog);
  INFO(ended.err);
  CHECK(ended.code == 5);
  CHECK(contains(ended.err,
                 f.workdir +
                     ": error: the workdir is gone: it was moved, deleted or unmounted during the "
                     "run; put it back before you start the run again, which would otherwise "
                     "begin at step 0\n"));
  CHECK(contains(ended.err, "not starting again: " + f.workdir + ": the workdir is gone: ") ==
        restarts);
  CHECK(fs::is_empty(f.workdir));
  CHECK_FALSE(exists(moved + "/result.json"));
  CHECK(Checkpointer::load(moved).step > 0);
}

TEST_CASE("a run that was killed before its first checkpoint starts again") {
  const DamagedRun f;
  const Finished killed = f.train({}, {{"BVTRAIN_CRASH_AT", "ckpt.shard_written:1"}});
  CHECK(killed.code == 137);
  f.finish();
}

TEST_CASE("a DONE of a step that the run has not come to does not count") {
  const DamagedRun f;
  f.train_and_die();
  write(f.workdir + "/DONE", "20\n");
  CHECK(contains(f.finish(), f.workdir +
                                 "/DONE: says that the run finished at step 20, but there is "
                                 "neither a checkpoint nor a metric row of that step; ignored"));
  CHECK(contains(f.train().err, "finished already, at step 12"));
  // The user needs the space. The run still counts as finished.
  fs::remove_all(f.workdir + "/ckpt");
  const Finished again = f.train();
  CHECK(again.code == 0);
  CHECK(contains(again.err, "finished already, at step 12"));
}

TEST_CASE("a finished run that has neither checkpoints nor a last row is not trained again") {
  const DamagedRun f;
  const std::vector<std::string> more = {
      "--set", "log_training_steps=0", "--set", "ckpt_steps=null", "--set", "keep_ckpt_steps=0"};
  const Finished first = f.train(more);
  INFO(first.err);
  REQUIRE(first.code == 0);
  REQUIRE(Workdir(f.workdir).ckpt().steps().empty());
  REQUIRE(f.steps().back() != "12");
  const std::string rows = read_file(f.workdir + "/metrics.jsonl");
  const Finished again = f.train(more);
  CHECK(again.code == 0);
  CHECK(contains(again.err, "finished already, at step 12"));
  CHECK(read_file(f.workdir + "/metrics.jsonl") == rows);
  // More steps would begin at step 0 and replace its rows.
  for (const char* flag : {"", "--accept-changes", "--dry-run"}) {
    INFO(flag);
    std::vector<std::string> longer = more;
    longer.insert(longer.end(), {"--set", "total_steps=14"});
    if (*flag) longer.emplace_back(flag);
    const Finished refused = f.train(longer);
    CHECK(refused.code == 2);
    CHECK(refused.err.ends_with(
        f.workdir +
        ": error: the run there finished at step 12 and has kept no checkpoint, so it cannot be "
        "continued; choose another --workdir, or remove metrics.jsonl to start the run from the "
        "beginning\n"));
    CHECK(read_file(f.workdir + "/metrics.jsonl") == rows);
  }
}

TEST_CASE("a report that cannot be written costs no checkpoint") {
  const DamagedRun f;
  Child child(f.args({"--set", "total_steps=100000", "--set", "ckpt_steps=50", "--set",
                      "max_checkpoints_to_keep=1000"}));
  REQUIRE(wait_for_file(f.workdir + "/ckpt/step-50"));
  fs::create_directory(f.workdir + "/report.html");
  child.kill(SIGTERM);
  const Finished stopped = child.wait();
  INFO(stopped.err);
  CHECK(stopped.code == 5);
  CHECK(contains(stopped.err, f.workdir + "/report.html: error: "));
  const auto result = nlohmann::json::parse(read_file(f.workdir + "/result.json"));
  CHECK(result.at("step") == Checkpointer::load(f.workdir).step);
}

TEST_CASE("a run.json with wrong types is put aside with a line that says so") {
  const DamagedRun f;
  f.train_and_die();
  const std::string file = f.workdir + "/run.json", whole = read_file(file);
  for (const auto& [member, value, fault] :
       {std::tuple{"restarts", "[]", "'restarts' is a list, expected an integer"},
        {"first_started", "3", "'first_started' is the number 3, expected a string"},
        {"config_changes", "[1]",
         "'config_changes' holds an entry without 'step' and 'changes'"}}) {
    auto run = nlohmann::json::parse(whole);
    run[member] = nlohmann::json::parse(value);
    write(file, run.dump());
    // Dies again at its next checkpoint.
    const Finished killed = f.train({}, {{"BVTRAIN_CRASH_AT", "ckpt.shard_written:1"}});
    INFO(killed.err);
    CHECK(killed.code == 137);
    CHECK(contains(killed.err, file + ": " + fault));
    CHECK(nlohmann::json::parse(read_file(file)).at("restarts") == 0);
  }
  CHECK(exists(file + ".damaged-3"));
  CHECK(f.train({"--cleanup"}).code == 0);
  CHECK_FALSE(exists(f.workdir));
}

TEST_CASE("a run that was killed during its last save is tidied up at the next start") {
  const DamagedRun f;
  // The fourth save, after those of steps 1, 4 and 8, is that of the last step.
  const Finished killed = f.train({}, {{"BVTRAIN_CRASH_AT", "ckpt.renamed:4"}});
  INFO(killed.err);
  REQUIRE(killed.code == 137);
  const std::string ckpt = f.workdir + "/ckpt/";
  CHECK(read_text(ckpt + "LAST") == "step-8\n");
  fs::create_directories(ckpt + ".trash-step-4");
  f.finish();
  CHECK(read_text(ckpt + "LAST") == "step-12\n");
  CHECK_FALSE(exists(ckpt + ".trash-step-4"));
}

TEST_CASE("a sealed manifest with wrong types makes the run fall back to the checkpoint before") {
  const DamagedRun f;
  f.train_and_die();
  const std::string folder = f.workdir + "/ckpt/step-8";
  Manifest manifest = read_manifest(folder);
  manifest.meta["chrono"]["accum_examples_seen"] = "128";
  write(folder + "/manifest.json", manifest.text());
  const std::string said = f.finish();
  CHECK(contains(said,
                 "[ckpt] step-8: manifest.json: meta.chrono.accum_examples_seen is a string, "
                 "expected an integer; falling back"));
  CHECK(contains(said, "Resuming training from checkpoint " + f.workdir + "/ckpt/step-4"));
}

TEST_CASE("a signal loses nothing of the clock") {
  const DamagedRun f;
  std::vector<std::string> args =
      f.args({"--set", "total_steps=100000", "--set", "log_training_steps=1000", "--set",
              "ckpt_steps=50", "--set", "max_checkpoints_to_keep=1000"});
  Child child(args);
  REQUIRE(wait_for_file(f.workdir + "/ckpt/step-50"));
  child.kill(SIGTERM);
  const Finished stopped = child.wait();
  INFO(stopped.err);
  CHECK(stopped.code == 143);
  const Restored saved = Checkpointer::load(f.workdir);
  CHECK(saved.meta.at("chrono").at("accum_examples_seen") == saved.step * 16);
}

TEST_CASE("a start removes what killed writes have left behind, and --cleanup all of it") {
  const DamagedRun f;
  f.train_and_die();
  // As if this test had died; it has another process number than the runs.
  std::string dead = temporary_name(f.workdir + "/report.html");
  dead.replace(dead.rfind("-" + std::to_string(::getpid()) + "-"), std::string::npos,
               "-2147483646-0");
  write(dead, "half");
  const Finished finished = f.train({"--cleanup"});
  INFO(finished.err);
  CHECK(finished.code == 0);
  CHECK_FALSE(exists(f.workdir));
}

TEST_CASE("the data may be moved while a run trains: its saves read nothing of it") {
  const DamagedRun f;
  std::string records;
  for (int i = 0; i < 40; ++i)
    records +=
        std::string(1, static_cast<char>(i % 10)) + std::string(3072, static_cast<char>(6 * i));
  for (const char* file : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                           "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"})
    f.dir.write(std::string("cifar/") + file, records);
  const auto names = [&](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += "class" + std::to_string(i) + "\n";
    f.dir.write("cifar/batches.meta.txt", text);
  };
  const std::vector<std::string> more = {
      "--set", "input.data={name: cifar, split: train, data_dir: " + (f.dir / "cifar") + "}",
      "--set", "total_steps=100000",
      "--set", "ckpt_steps=20",
      "--set", "max_checkpoints_to_keep=1000"};
  names(11);
  const Finished refused = f.train(more);
  CHECK(refused.code == 2);
  CHECK(contains(refused.err, "batches.meta.txt: error: 11 class names, expected 10"));
  CHECK_FALSE(exists(f.workdir + "/ckpt"));
  names(10);
  Child child(f.args(more));
  REQUIRE(wait_for_file(f.workdir + "/ckpt/step-20"));
  fs::rename(f.dir / "cifar", f.dir / "moved");
  REQUIRE(wait_for_file(f.workdir + "/ckpt/LAST"));
  child.kill(SIGTERM);
  const Finished stopped = child.wait();
  INFO(stopped.err);
  CHECK(stopped.code == 143);
  CHECK(Checkpointer::load(f.workdir).meta.at("class_names").size() == 10);
}

}  // namespace bv::test
