// scripts/sweep.sh and `bvtrain compare` with the real binary: a sweep whose runs are killed,
// stopped and diverge, and the comparison of its results.
#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/util/file.h"
#include "lib/util/text.h"
#include "test/support/binary.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

using Strings = std::vector<std::string>;

// Starts a script of the repository with the binary under test.
Process start_script(const std::string& script, Strings args, Environment environment = {}) {
  environment.insert(environment.begin(), {"BVTRAIN_BINARY", std::getenv("BVTRAIN")});
  args.insert(args.begin(), {"bash", source_file(script)});
  return Process("/bin/bash", args, environment);
}

struct Sweep {
  TempFolder dir;
  std::string out = dir / "out";
  Strings args;

  explicit Sweep(const Strings& grid) {
    args = {"--config", source_file("configs/digits_cnn.yaml"), "--out", out, "--jobs", "2"};
    args.insert(args.end(), grid.begin(), grid.end());
    for (const char* setting : {"total_steps=40", "log_training_steps=5", "ckpt_steps=10",
                                "model.widths=[4, 8]", "model.dense=16"})
      args.insert(args.end(), {"--set", setting});
  }
  Process start(const Environment& environment = {}, const Strings& more = {}) const {
    Strings all = args;
    all.insert(all.end(), more.begin(), more.end());
    return start_script("scripts/sweep.sh", all, environment);
  }
  Finished run(const Environment& environment = {}, const Strings& more = {}) const {
    return start(environment, more).wait();
  }
};

// Returns the lines that begin with '[', without the seconds that runs took, sorted.
Strings reports(const std::string& out) {
  Strings lines;
  for (const std::string& line : split(out, '\n')) {
    if (line.starts_with("[")) lines.push_back(line.substr(0, line.find(" (")));
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

// The commands that docs/data.md gives for a cross-validation.
std::string cross_validation() {
  const std::string text = read_file(source_file("docs/data.md"));
  const size_t begin = text.find("for fold in");
  REQUIRE(begin != std::string::npos);
  return text.substr(begin, text.find("```", begin) - begin);
}

}  // namespace

TEST_CASE("the commands of a cross-validation in docs/data.md") {
  const TempFolder dir;
  const std::string pp =
      "'value_range(-1, 1)|onehot(10, key=\"label\", key_result=\"labels\")|keep(\"image\", "
      "\"labels\")'";
  write_file_atomically(
      dir / "flowers.yaml",
      fmt::format("{{num_classes: 10, total_steps: 6, log_training_steps: 6, input: {{data: "
                  "{{name: digits, split: train}}, "
                  "batch_size: 64, pp: {0}}}, model_name: cnn, model: {{widths: [4]}}, "
                  "loss: softmax_xent, optax_name: scale_by_adam, lr: 0.01, evals: {{val: {{type: "
                  "class_metrics, metrics: [accuracy], data: {{name: digits, split: test}}, "
                  "pp_fn: {0}, log_steps: 6}}}}}}",
                  pp));
  const std::string script =
      "cd \"$1\" && bvtrain() { \"$BVTRAIN\" \"$@\"; }\n" + cross_validation();
  const Finished done = Process("/bin/bash", {"bash", "-ec", script, "bash", dir / ""}, {}).wait();
  INFO(done.err);
  REQUIRE(done.code == 0);
  std::set<std::string> accuracies;
  for (int fold = 1; fold <= 5; ++fold) {
    const std::string name = fmt::format("fold-{}", fold);
    CHECK(contains(done.out, name + "\n"));  // in the table
    const std::vector<TextRow> rows = metric_rows(dir / ("out/" + name));
    REQUIRE(!rows.empty());
    accuracies.insert(rows.back().at("val/accuracy"));
  }
  CHECK(accuracies.size() > 1);  // the folds differ
}

TEST_CASE("a sweep continues runs that were killed, skips finished ones, leaves diverged ones") {
  // A learning rate of 1e30 diverges in the first steps.
  const Sweep sweep({"--grid", "lr", "0.002", "1e30", "--grid", "seed", "0", "1"});
  const std::string name = "lr=0.002,seed=0";

  // Each run dies after its second checkpoint. The first one is that of step 1.
  const Finished killed = sweep.run({{"BVTRAIN_CRASH_AT", "ckpt.last_replaced:2"}});
  INFO(killed.out << killed.err);
  CHECK(killed.code == 137);  // not 75: a loop around the sweep would never end
  CHECK(contains(killed.out, "] " + name +
                                 ": killed; the same command continues it from its last "
                                 "checkpoint\n"));
  CHECK(contains(killed.out, "] lr=1e30,seed=1: diverged: "));
  CHECK(contains(killed.out, "  unfinished at step "));
  CHECK(contains(killed.out, "\nDiverged; remove the file FAILED in a workdir to try it again:\n"));

  const Finished resumed = sweep.run();
  INFO(resumed.out << resumed.err);
  CHECK(resumed.code == 4);
  CHECK(reports(resumed.out) ==
        Strings{"[1/4] lr=0.002,seed=0: finished", "[1/4] lr=0.002,seed=0: starts",
                "[2/4] lr=0.002,seed=1: finished", "[2/4] lr=0.002,seed=1: starts",
                "[3/4] lr=1e30,seed=0: diverged before; not tried again",
                "[4/4] lr=1e30,seed=1: diverged before; not tried again"});
  const std::string workdir = sweep.out + "/" + name;
  CHECK(nlohmann::json::parse(read_text(workdir + "/run.json")).at("first_step").get<int>() > 1);
  CHECK(metric_rows(workdir).back().at("step") == "40");

  // Finished runs are not trained again: their files stay as they are.
  const std::string before = read_text(workdir + "/run.json");
  CHECK(sweep.run().code == 4);
  CHECK(read_text(workdir + "/run.json") == before);

  // Other arguments for the same folder are rejected, because finished runs would not use them.
  const Finished other = sweep.run({}, {"--set", "wd=0"});
  CHECK(other.code == 2);
  CHECK(
      contains(other.err, "sweep.sh: error: " + sweep.out +
                              " was begun with other arguments, or the config has changed since:"));

  // ---- The comparison of what the sweep left.
  const Strings compare = {"compare", sweep.out, "--metrics", "training_loss"};
  const auto compared = [&](const Strings& more) {
    Strings all = compare;
    all.insert(all.end(), more.begin(), more.end());
    const Finished end = run(all);
    INFO(end.err);
    CHECK(end.code == 0);
    return end.out;
  };
  const Strings text = split(compared({}), '\n');
  REQUIRE(text.size() > 10);
  CHECK(text[0] == "4 runs in 2 groups, by test/prec@1: last value, higher is better");
  CHECK(text[3].starts_with("   lr  seed "));
  CHECK(contains(text[4], "2  2 finished"));
  CHECK(contains(text[5], "  finished  "));
  CHECK(text[5].ends_with("  lr=0.002,seed=0"));
  CHECK(contains(text[7], "  2  2 diverged"));
  CHECK(contains(text[8], "  diverged at step "));

  const auto json = nlohmann::json::parse(compared({"--format", "json"}));
  const auto& best = json.at("groups").at(0);
  CHECK(best.at("config").dump() == R"({"lr":0.002})");
  CHECK(best.at("finished") == 2);
  double mean = 0;
  for (const char* seed : {"0", "1"}) {
    const auto rows = metric_rows(sweep.out + "/lr=0.002,seed=" + seed);
    mean += std::stod(rows.back().at("test/prec@1")) / 2;
  }
  CHECK(best.at("spreads").at("test/prec@1").at("mean").get<double>() == Approx(mean));
  CHECK(json.at("groups").at(1).at("runs").at(0).at("status") == "diverged");

  const Strings csv = split(compared({"--format", "csv"}), '\n');
  REQUIRE(csv.size() == 6);
  CHECK(csv[0].starts_with("rank,workdir,lr,seed,fold,status,step,total_steps,test/prec@1,"));
  CHECK(csv[1].starts_with("1,\"" + workdir + "\",0.002,0,,finished,40,40,0."));

  const std::string page = sweep.dir / "page.html";
  CHECK(compared({"--html", page}) == join(text, "\n"));
  CHECK(contains(read_text(page), "lr=0.002,seed=1</td></tr>"));

  const Finished wrong = run({"compare", sweep.out, "--sort", "test/prec"});
  CHECK(wrong.code == 2);
  CHECK(wrong.err.starts_with(
      "--sort test/prec: error: no run has this metric (did you mean 'test/prec@1'?); known: "));
  const Finished none = run({"compare", sweep.out + "/" + name + "/tb"});
  CHECK(none.code == 2);
  CHECK(contains(none.err, "/tb: warning: not a workdir, and it holds none; left out\n"));
  CHECK(contains(none.err, "bvtrain compare: error: none of these is a run\n"));
  CHECK(run({"compare"}).code == 2);
}

TEST_CASE("a sweep that gets a signal ends when every run has saved") {
  const Sweep sweep({"--grid", "seed", "0", "1", "2"});
  // A run takes half a minute from its third step on, so that the signal finds both at work, also
  // if one of them starts late.
  Process process = sweep.start({{"BVTRAIN_SLEEP_AT", "step.rank0:3+:0.8"}});
  REQUIRE(wait_for_file(sweep.out + "/seed=1/ckpt/LAST"));
  REQUIRE(wait_for_file(sweep.out + "/seed=0/ckpt/LAST"));
  process.kill(SIGTERM);
  const Finished end = process.wait();
  INFO(end.out << end.err);
  CHECK(end.code == 143);
  CHECK(end.err.starts_with("SIGTERM: stopping 2 runs; each saves a checkpoint first\n"));
  CHECK(contains(end.out, "[1/3] seed=0: stopped; the same command continues it\n"));
  CHECK_FALSE(exists(sweep.out + "/seed=2"));
  CHECK(processes_with(sweep.out).empty());
  const std::string saved = trim(read_text(sweep.out + "/seed=0/ckpt/LAST"));

  const Finished rest = sweep.run();
  INFO(rest.out << rest.err);
  CHECK(rest.code == 0);
  const auto resumed = nlohmann::json::parse(read_text(sweep.out + "/seed=0/run.json"));
  CHECK("step-" + resumed.at("first_step").dump() == saved);
  CHECK(contains(rest.out, "3 runs in 1 group, by test/prec@1: last value, higher is better\n"));
}

TEST_CASE("a signal reaches the runs of a sweep whose output nobody reads any more") {
  const Sweep sweep({"--grid", "seed", "0", "1"});
  Strings args = {"bash", "-c", "exec bash \"$@\" > >(head -n 1) 2>&1", "bash",
                  source_file("scripts/sweep.sh")};
  args.insert(args.end(), sweep.args.begin(), sweep.args.end());
  Process process(
      "/bin/bash", args,
      {{"BVTRAIN_BINARY", std::getenv("BVTRAIN")}, {"BVTRAIN_SLEEP_AT", "step.rank0:3+:0.8"}});
  REQUIRE(wait_for_file(sweep.out + "/seed=0/ckpt/LAST"));
  REQUIRE(wait_for_file(sweep.out + "/seed=1/ckpt/LAST"));
  process.kill(SIGTERM);  // the reader has ended, as that of `sweep.sh | tee` after Ctrl-C
  CHECK(process.wait().code == 143);
  CHECK(processes_with(sweep.out).empty());
}

TEST_CASE("the points of a grid: names, arguments and shares of the cores") {
  const TempFolder dir;
  const auto sweep = [&](Strings args, const Environment& environment = {}) {
    args.insert(args.begin(), {"--config", "c.yaml", "--out", dir / "out"});
    return start_script("scripts/sweep.sh", args, environment).wait();
  };
  const Finished missing = sweep({"--grid", "lr", "0.1"});
  CHECK(missing.code == 2);
  CHECK(missing.err == "sweep.sh: error: c.yaml: no such file\n");
  const Finished second = sweep({"--grid", "lr", "0.1", "--grid", "model.widths", "[4, 8]", "[4,8]",
                                 "--grid", "seed", "0", "1", "--print", "2"});
  INFO(second.out << second.err);
  // A name that cannot hold a value as it is ends in a checksum.
  const size_t name = second.out.find("--workdir ");
  REQUIRE(name != std::string::npos);
  CHECK(second.out.substr(0, name) ==
        "--config c.yaml --set lr=0.1 --set 'model.widths=[4, 8]' --set seed=1 ");
  const std::string start = dir / "out/lr=0.1,model.widths=_4__8_,seed=1-";
  CHECK(second.out.substr(name + 10, start.size()) == start);
  CHECK(second.out.size() == name + 10 + start.size() + 8 + 1);
  CHECK(sweep({"--grid", "lr", "0.1", "--", "--set", "b=1", "--print", "1"}).out ==
        "--config c.yaml --set b=1 --set lr=0.1 --workdir " + (dir / "out/lr=0.1") + "\n");
  CHECK(sweep({"--grid", "lr", "-1", "2", "--grid", "b", "", "x y", "$(id)'", "--count"}).out ==
        "6\n");
  CHECK(sweep({"--grid", "wd", "0.1", "", "--print", "2"}).out ==
        "--config c.yaml --set wd=null --workdir " + (dir / "out/wd=null") + "\n");

  // Every point has its own name, even those that differ only in awkward characters.
  const Finished all = sweep(
      {"--grid", "k", "a,b", "a b", "a/b", "a_b", "", "-", "--grid", "l", "1", "1.0", "--dry-run"});
  const Strings commands = split(all.out, '\n');
  std::set<std::string> workdirs;
  for (const std::string& line : commands) workdirs.insert(line.substr(line.rfind(' ') + 1));
  CHECK(commands.size() == 13);  // with the empty one at the end
  CHECK(workdirs.size() == 13);
  CHECK_FALSE(exists(dir / "out"));

  const Finished gpus = sweep({"--grid", "lr", "1", "2", "3", "--jobs", "2", "--dry-run"},
                              {{"CUDA_VISIBLE_DEVICES", "4,5,6,7"}});
  CHECK(count(gpus.out, "env CUDA_VISIBLE_DEVICES=4,5 taskset -c ") == 2);
  CHECK(count(gpus.out, "env CUDA_VISIBLE_DEVICES=6,7 taskset -c ") == 1);

  const auto refused = [&](const Strings& args) {
    const Finished end = sweep(args);
    CHECK(end.code == 2);
    return end.err;
  };
  CHECK(refused({}) == "sweep.sh: error: no --grid KEY VALUES given\n");
  CHECK(refused({"--grid", "lr"}) == "sweep.sh: error: --grid lr has no values\n");
  CHECK(refused({"--grid", "lr", "1", "1"}) ==
        "sweep.sh: error: --grid lr has the value '1' twice\n");
  CHECK(refused({"--grid", "lr", "1", "--set", "lr=2"}) ==
        "sweep.sh: error: lr has values in the grid, and another one in 'lr=2'\n");
  const std::string lost = "sweep.sh: error: the values of --grid model would replace ";
  CHECK(refused({"--grid", "model", "{dense: 4}", "--set", "model.width=2"}) ==
        lost + "'model.width=2'; give that key a --grid, too\n");
  CHECK(refused({"--grid", "model.width", "2", "--grid", "model", "{dense: 4}"}) ==
        lost + "those of --grid model.width; give --grid model first\n");
  CHECK(sweep({"--grid", "model", "{dense: 4}", "--grid", "model.width", "2", "--count"}).out ==
        "1\n");
  CHECK(refused({"--grid", "lr", "1", "--jobs", "0"}) ==
        "sweep.sh: error: --jobs needs a number of runs, not '0'\n");
  CHECK(refused({"--grid", "lr", "1", "--cleanup"}) ==
        "sweep.sh: error: --cleanup would remove the results: the next call would train again\n");
  const Finished cleanup = sweep({"--grid", "lr", "1"}, {{"BVTRAIN_CLEANUP", "true"}});
  CHECK(cleanup.code == 2);
  CHECK(cleanup.err ==
        "sweep.sh: error: $BVTRAIN_CLEANUP would remove the results: the next call would train "
        "again\n");
  CHECK(
      refused({"--grid", "lr", "1", "--workdir", "x"}).starts_with("sweep.sh: error: give --out"));
}

}  // namespace bv::test
