// The keys best and max_checkpoints_to_keep, with the real binary: ckpt/best is the checkpoint of
// the best row, even after a kill.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/util/text.h"
#include "test/e2e/best_run.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

namespace fs = std::filesystem;

// Checks that ckpt/best belongs to the first row with the lowest test/loss, and returns its step.
int64_t check_best(const std::string& workdir) {
  int64_t step = -1;
  double lowest = 0;
  for (const TextRow& row : metric_rows(workdir)) {
    if (!row.contains("test/loss")) continue;
    const double value = std::stod(row.at("test/loss"));
    if (!std::isfinite(value) || (step >= 0 && value >= lowest)) continue;
    step = std::stoll(row.at("step"));
    lowest = value;
  }
  const nlohmann::json best = best_of(workdir + "/ckpt/best");
  CHECK(best.at("step") == step);
  CHECK(best.at("value") == lowest);
  return step;
}

std::string shard(const std::string& folder) {
  return read_text(folder + "/state-00000-of-00001.safetensors");
}

std::multiset<std::string> sorted_lines(const std::string& text) {
  const std::vector<std::string> lines = split(text, '\n');
  return {lines.begin(), lines.end()};
}

}  // namespace

TEST_CASE("the best checkpoint is that of the best row, also after kills") {
  const BestRun whole;
  REQUIRE(whole.train_with({"keep_ckpt_steps=1"}).code == 0);
  const int64_t step = check_best(whole.workdir);
  REQUIRE(step % 5 != 0);  // no periodic checkpoint: it was saved because it is the best
  CHECK(shard(whole.best()) == shard(whole.step(step)));

  for (const char* point : {"ckpt.best_written", "ckpt.renamed", "ckpt.pruned", "eval.rank0"}) {
    for (const int arrival : {1, 3}) {
      INFO(point << ' ' << arrival);
      const BestRun f;
      CHECK(f.train({}, {{"BVTRAIN_CRASH_AT", fmt::format("{}:{}", point, arrival)}}).code == 137);
      const Finished finished = f.train();
      INFO(finished.err);
      REQUIRE(finished.code == 0);
      CHECK(check_best(f.workdir) == step);
      CHECK(shard(f.best()) == shard(whole.best()));
      CHECK(repeatable_rows(f.workdir) == repeatable_rows(whole.workdir));
    }
  }
}

TEST_CASE("predict, export and model_init take the best checkpoint") {
  const BestRun f;
  REQUIRE(f.train().code == 0);
  const auto exported = [&](const std::string& from, const std::vector<std::string>& flags,
                            const std::string& name) {
    std::vector<std::string> args = {"export", "--workdir", from, "--output", f.dir / name};
    args.insert(args.end(), flags.begin(), flags.end());
    const Finished finished = run(args);
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    return read_text(f.dir / name);
  };
  const std::string best = exported(f.workdir, {"--best"}, "a.npz");
  CHECK(best == exported(f.best(), {}, "b.npz"));
  CHECK(best == exported(f.workdir + ":best", {}, "c.npz"));
  CHECK(best != exported(f.workdir, {}, "d.npz"));

  const Finished predicted =
      run({"predict", "--workdir", f.workdir, "--best", "--eval", "test", "--first", "2"});
  INFO(predicted.err);
  CHECK(predicted.code == 0);
  CHECK(contains(predicted.err, f.best()));

  const Finished tuned = run({"--config", f.config, "--workdir", f.dir / "tuned", "--set",
                              "model_init=" + f.workdir + ":best", "--set", "total_steps=0"});
  INFO(tuned.err);
  REQUIRE(tuned.code == 0);
  CHECK(std::stod(metric_rows(f.dir / "tuned").front().at("test/loss")) ==
        best_of(f.best()).at("value").get<double>());

  const Finished none = run({"predict", "--workdir", f.workdir + ":best-loss", "--eval", "test"});
  CHECK(none.code == 2);
  CHECK(contains(none.err, f.best() + "-loss: error: no such checkpoint; there is best\n"));
}

TEST_CASE("several best checkpoints, on several processes with sharded state") {
  const BestRun f;
  const Finished finished = f.train({"--devices", "cpu:2", "--set",
                                     "best=[{metric: test/loss}, {metric: test/prec@1, name: top}]",
                                     "--set", "sharding_strategy=zero1"});
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  check_best(f.workdir);
  CHECK(best_of(f.best() + "-top").at("metric") == "test/prec@1");
  CHECK(fs::exists(f.best() + "-top/state-00001-of-00002.safetensors"));
  const auto result = nlohmann::json::parse(read_text(f.workdir + "/result.json"));
  CHECK(result.at("best_checkpoints").size() == 2);
  CHECK(contains(finished.err, "Best checkpoint: "));
  // Readers verify the checksums of all files.
  const Finished exported =
      run({"export", "--workdir", f.workdir + ":best-top", "--output", f.dir / "top.npz"});
  INFO(exported.err);
  CHECK(exported.code == 0);
}

TEST_CASE("a metric that no evaluator measures is an error, after an evaluation if need be") {
  const BestRun f;
  const Finished early = f.train_with({"best.metric=test/lost"});
  CHECK(early.code == 2);
  CHECK(contains(early.err,
                 "--set best.metric=test/lost: error: best.metric: no such metric 'test/lost' (did "
                 "you mean 'test/loss'?); test measures test/prec@1, test/loss, test/prec@5\n"));
  CHECK_FALSE(exists(f.workdir));
  // What the classes are called follows from the data.
  std::string yaml = best_config();
  const std::string loss = "    loss_name: softmax_xent\n", kind = "type: classification";
  yaml.erase(yaml.find(loss), loss.size());
  yaml.replace(yaml.find(kind), kind.size(), "type: class_metrics\n    metrics: [f1_per_class]");
  const BestRun by_class(yaml);
  const Finished late = by_class.train_with({"best.metric=test/f1@cat"});
  INFO(late.err);
  CHECK(late.code == 2);
  CHECK(contains(late.err,
                 "--set best.metric=test/f1@cat: error: best.metric: no such metric 'test/f1@cat' "
                 "(did you mean 'test/f1@0'?); test measures test/f1@0, test/f1@1, "));
  CHECK(exists(by_class.step(0)));
  // An earlier start may have measured it: another version may have named it differently.
  const BestRun renamed(yaml);
  REQUIRE(renamed.train_with({"best=null", "total_steps=4"}).code == 0);
  const std::string rows = renamed.workdir + "/metrics.jsonl";
  std::string text = read_text(rows);
  const std::string name = "f1@0";
  for (size_t at = 0; (at = text.find(name, at)) != std::string::npos; ++at)
    text.replace(at, name.size(), "f1@old");
  write(rows, text);
  const Finished again = renamed.train(
      {"--set", "best.metric=test/f1@old", "--set", "total_steps=8", "--accept-changes"});
  INFO(again.err);
  CHECK(again.code == 2);
  CHECK(contains(again.err, "no such metric 'test/f1@old'"));
}

TEST_CASE("the best checkpoint by another metric is not overwritten") {
  const BestRun f;
  REQUIRE(f.train().code == 0);
  const std::string manifest = read_text(f.best() + "/manifest.json");
  const Finished other = f.train_with({"best.metric=test/prec@1", "total_steps=24"});
  CHECK(other.code == 2);
  const Finished accepted =
      f.train({"--set", "best.metric=test/prec@1", "--set", "total_steps=24", "--accept-changes"});
  CHECK(accepted.code == 2);
  CHECK(contains(accepted.err, "best.metric: " + f.best() +
                                   " is the checkpoint with the lowest test/loss; give the highest "
                                   "test/prec@1 a unique `name`, or move the folder away"));
  CHECK(exists(f.workdir + "/DONE"));
  // Nothing is left to train.
  const Finished finished = f.train_with({"best.metric=test/prec@1"});
  CHECK(finished.code == 2);
  CHECK(contains(finished.err, f.best() + " is the checkpoint with the lowest test/loss; "));
  const Finished named = f.train_with({"best.name=l"});
  INFO(named.err);
  CHECK(named.code == 0);
  CHECK(contains(named.err, f.best() + "-l does not exist, and a finished run looks for no best "
                                       "checkpoint; to find it, give `bvtrain eval` a --config "
                                       "whose `best` has `by: eval`\n"));
  CHECK_FALSE(contains(f.train().err, "does not exist"));
  CHECK(read_text(f.best() + "/manifest.json") == manifest);
}

TEST_CASE("a best checkpoint outlives what was deleted around it") {
  const BestRun f;
  REQUIRE(f.train().code == 0);
  const int64_t step = best_of(f.best()).at("step");
  const std::string state = shard(f.best());

  // The rows are gone: only the folder shows what was the best.
  fs::remove(f.workdir + "/metrics.jsonl");
  const Finished rowless =
      f.train({"--accept-changes", "--set", "total_steps=22", "--set", "lr=1.0"});
  INFO(rowless.err);
  CHECK(rowless.code == 0);
  CHECK(contains(rowless.err, f.workdir + "/metrics.jsonl: rows up to step 18 are missing, which "
                                          "the run wrote before the checkpoint of step 20; it "
                                          "continues without them, and `best` without their "
                                          "values; to keep them, stop it and put the file back\n"));
  CHECK(contains(rowless.err, "which has no row; it stays until a later step is "));
  CHECK(best_of(f.best()).at("step") == step);
  CHECK(shard(f.best()) == state);

  // All other checkpoints are gone: the run does not start over.
  for (const auto& entry : fs::directory_iterator(f.workdir + "/ckpt")) {
    if (entry.path().filename().string().starts_with("step-")) fs::remove_all(entry.path());
  }
  fs::remove(f.workdir + "/ckpt/LAST");
  fs::remove(f.workdir + "/DONE");
  const Finished alone = f.train();
  CHECK(alone.code == 2);
  CHECK(
      contains(alone.err, f.best() + ": error: is the best checkpoint of a run, but no other is "));
  CHECK(shard(f.best()) == state);
  const Finished resumed =
      run({"--config", f.config, "--workdir", f.dir / "next", "--set",
           "resume=" + f.workdir + ":best", "--set", fmt::format("total_steps={}", step + 2)});
  INFO(resumed.err);
  CHECK(resumed.code == 0);
}

TEST_CASE("a checkpoint that is damaged or cannot be read never becomes the best one") {
  const BestRun f;
  REQUIRE(f.train_with({"best=null", "keep_ckpt_steps=1"}).code == 0);
  int64_t step = -1;
  double lowest = 0;
  for (const TextRow& row : metric_rows(f.workdir)) {
    if (!row.contains("test/loss") || row.at("step") == "0") continue;
    const double value = std::stod(row.at("test/loss"));
    if (step < 0 || value < lowest) step = std::stoll(row.at("step")), lowest = value;
  }
  const std::vector<std::string> args = {"--accept-changes", "--set", "total_steps=22", "--set",
                                         "lr=0.0"};
  const std::string folder = fmt::format("{}/ckpt/step-{}", f.workdir, step);
  const std::string manifest = folder + "/manifest.json";
  fs::rename(manifest, f.dir / "whole");
  fs::create_symlink("/proc/self/mem", manifest);  // reading it fails with EIO
  const Finished unread = f.train(args);
  INFO(unread.err);
  CHECK(unread.code == 5);
  CHECK(contains(unread.err, folder + ": error: manifest.json: cannot read: Input/output error"));
  fs::rename(f.dir / "whole", manifest);
  const std::string file = folder + "/state-00000-of-00001.safetensors";
  std::string bytes = read_text(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write(file, bytes);
  const Finished added = f.train(args);
  INFO(added.err);
  CHECK(added.code == 0);
  CHECK(contains(added.err,
                 fmt::format("no complete checkpoint is left of step {}, the best so far", step)));
  CHECK(!exists(f.best()));
}

TEST_CASE("max_checkpoints_to_keep says how many of the newest checkpoints stay") {
  for (const int kept : {1, 3}) {
    const BestRun f;
    REQUIRE(f.train_with({"best=null", fmt::format("max_checkpoints_to_keep={}", kept)}).code == 0);
    int folders = 0;
    for (const auto& entry : fs::directory_iterator(f.workdir + "/ckpt"))
      folders += entry.path().filename().string().starts_with("step-") ? 1 : 0;
    CHECK(folders == kept);
  }
}

TEST_CASE("after a change of what is measured, the best step is sought anew") {
  const BestRun f;
  REQUIRE(f.train().code == 0);
  const int64_t before = best_of(f.best()).at("step");
  const Finished changed = f.train(
      {"--accept-changes", "--set", "total_steps=26", "--set", "evals.test.data.split=test[:100]"});
  INFO(changed.err);
  REQUIRE(changed.code == 0);
  CHECK(contains(changed.err, "but the evaluator of test/loss was changed or added later"));
  CHECK(best_of(fmt::format("{}/ckpt/old-best-step-{}", f.workdir, before)).at("step") == before);
  CHECK(best_of(f.best()).at("step") > 20);
  // The same after a restart, which measures nothing and keeps the report with its details.
  const std::string manifest = read_text(f.best() + "/manifest.json");
  const std::string report = read_text(f.workdir + "/report.html");
  CHECK(contains(report, "Confusion matrix"));
  fs::remove(f.workdir + "/DONE");
  CHECK(f.train({"--set", "total_steps=26", "--set", "evals.test.data.split=test[:100]"}).code ==
        0);
  CHECK(read_text(f.best() + "/manifest.json") == manifest);
  CHECK(read_text(f.workdir + "/report.html") == report);
}

TEST_CASE("a run that goes back before its best step puts ckpt/best aside") {
  const BestRun f;
  REQUIRE(f.train_with({"keep_ckpt_steps=1"}).code == 0);
  const int64_t best = best_of(f.best()).at("step");
  REQUIRE(best > 1);
  for (int64_t step = best; step <= 20; ++step) fs::remove_all(f.step(step));
  fs::remove(f.workdir + "/DONE");
  const Finished again = f.train_with({"keep_ckpt_steps=1"});
  INFO(again.err);
  CHECK(again.code == 0);
  CHECK(contains(again.err,
                 fmt::format("belongs to step {}, but the run continues from step {}; it is ", best,
                             best - 1)));
  CHECK(exists(fmt::format("{}/ckpt/old-best-step-{}", f.workdir, best)));
  CHECK(best_of(f.best()).at("step") == best);  // the same steps, done again
}

TEST_CASE("a change of the config with which no checkpoint was saved leaves no trace") {
  const std::string yaml = best_config() + "keep_ckpt_steps: 5\n";
  const std::vector<std::string> values = {"ckpt_steps=null", "evals.test.log_steps=5"};
  const BestRun whole(yaml), f(yaml);
  REQUIRE(whole.train_with(values).code == 0);
  // Dies in the evaluator of step 10, after the checkpoint of that step: the third one.
  CHECK(f.train_with(values, {{"BVTRAIN_SLEEP_AT", "eval.rank0:3:20"},
                              {"BVTRAIN_CRASH_AT", "ckpt.last_replaced:3"}})
            .code == 137);
  REQUIRE(manifest_of(f.step(10)).at("meta").at("due_evals").size() == 1);
  const auto changes = [&] {
    return nlohmann::json::parse(read_text(f.workdir + "/run.json")).at("config_changes");
  };
  const std::string old = f.workdir + "/config-until-step-10.yaml";
  const std::string config = read_text(f.workdir + "/config.yaml");
  std::vector<std::string> other = {"--accept-changes", "--set", "evals.test.data.split=train"};
  for (const std::string& value : values) other.insert(other.end(), {"--set", value});
  for (int time = 0; time < 2; ++time) {  // dies before its first checkpoint is committed
    const Finished killed = f.train(other, {{"BVTRAIN_CRASH_AT", "ckpt.shard_written:1"}});
    INFO(killed.err);
    CHECK(killed.code == 137);
    CHECK(changes().size() == 1);
    CHECK(changes()[0].at("evaluators") == std::vector<std::string>{"test"});
    CHECK(read_text(old) == config);
    CHECK_FALSE(exists(f.best()));
  }
  // The starts above may have skipped examples of the other data at step 10.
  const std::string skipped = f.workdir + "/skipped.jsonl";
  const auto entry = [](const std::string& data, int step) {
    return fmt::format(
        "{{\"data\": \"{}\", \"step\": {}, \"example\": \"x\", \"reason\": \"y\"}}\n", data, step);
  };
  write(skipped, entry("evals.test", 5) + entry("input", 10) + entry("evals.test", 10));
  const Finished back = f.train_with(values);
  INFO(back.err);
  REQUIRE(back.code == 0);
  CHECK(read_text(skipped) == entry("evals.test", 5) + entry("input", 10));
  CHECK(contains(back.err, f.best() + " is that of step 5 again, the best so far"));
  CHECK(changes().empty());
  CHECK_FALSE(exists(old));
  // A restart may read the keys, and so write their defaults, in another order.
  CHECK(sorted_lines(read_text(f.workdir + "/config.yaml")) == sorted_lines(config));
  CHECK(repeatable_rows(f.workdir) == repeatable_rows(whole.workdir));
  CHECK(check_best(f.workdir) == check_best(whole.workdir));
  CHECK(shard(f.best()) == shard(whole.best()));
}

}  // namespace bv::test
