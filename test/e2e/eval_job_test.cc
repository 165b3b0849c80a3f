// bvtrain eval evaluates each checkpoint of a run once, and its metrics equal the run's.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "test/support/digits_run.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

namespace fs = std::filesystem;

struct EvaluatedRun : DigitsRun {
  EvaluatedRun()
      : DigitsRun(digits_config("lr: 0.01\nema: {decay: 0.9}\nkeep_ckpt_steps: 5\nevals:\n") +
                  digits_evaluator("average", {"ema: true", "log_steps: 5"}) +
                  digits_evaluator("only_job", {}, "test[:100]") +
                  digits_evaluator("test", {"log_steps: 5"})) {}
  Finished evaluate(const std::vector<std::string>& flags = {},
                    const Environment& environment = {}) const {
    std::vector<std::string> all = {"eval", "--workdir", workdir};
    all.insert(all.end(), flags.begin(), flags.end());
    return run(all, environment);
  }
};

// The metrics of a row whose names begin with `prefix`.
TextRow part(const TextRow& row, const std::string& prefix) {
  TextRow out;
  for (const auto& [name, value] : row) {
    if (name.starts_with(prefix)) out[name] = value;
  }
  return out;
}

}  // namespace

TEST_CASE("bvtrain eval writes the rows of the run, to the bit, each once") {
  const EvaluatedRun f;
  REQUIRE(f.train().code == 0);
  // Killed before its second row is written.
  CHECK(f.evaluate({}, {{"BVTRAIN_CRASH_AT", "evaluate.row:2"}}).code == 137);
  CHECK(metric_rows(f.workdir + "/eval").size() == 1);
  const Finished evaluated = f.evaluate();
  INFO(evaluated.err);
  REQUIRE(evaluated.code == 0);
  CHECK(contains(evaluated.err, "Evaluated 3 checkpoints; the rows are in "));
  std::map<std::string, TextRow> in_loop;
  for (const TextRow& row : metric_rows(f.workdir)) in_loop[row.at("step")] = row;
  const std::vector<TextRow> rows = metric_rows(f.workdir + "/eval");
  REQUIRE(rows.size() == 4);
  for (size_t i = 0; i < rows.size(); ++i) {
    INFO("row " << i);
    CHECK(rows[i].at("step") == std::to_string(5 * (i + 1)));
    for (const char* prefix : {"test/", "average/"}) {
      CHECK(part(rows[i], prefix).size() >= 2);
      CHECK(part(rows[i], prefix) == part(in_loop.at(rows[i].at("step")), prefix));
    }
    CHECK(rows[i].contains("only_job/loss"));
  }
  CHECK(exists(f.workdir + "/eval/report.html"));
  CHECK(exists(f.workdir + "/eval/tb"));

  const std::string before = read_text(f.workdir + "/eval/metrics.jsonl");
  const auto event_files = [&] {
    return std::distance(fs::directory_iterator(f.workdir + "/eval/tb"), {});
  };
  const auto files_before = event_files();
  CHECK(contains(f.evaluate().err, "All 4 checkpoints have a row already; the rows are in "));
  CHECK(read_text(f.workdir + "/eval/metrics.jsonl") == before);
  CHECK(event_files() == files_before);

  const Finished one = f.evaluate({"--ckpt", "10", "--json"});
  INFO(one.err);
  REQUIRE(one.code == 0);
  const auto json = nlohmann::json::parse(one.out);
  CHECK(json.at("step") == 10);
  CHECK(json.at("metrics").at("test/loss").get<double>() ==
        std::stod(in_loop.at("10").at("test/loss")));
  CHECK(read_text(f.workdir + "/eval/metrics.jsonl") == before);
}

TEST_CASE("bvtrain eval --follow evaluates beside the run until it has finished") {
  const EvaluatedRun f;
  Child train(f.args({"--set", "total_steps=60"}), {{"BVTRAIN_SLEEP_AT", "eval.rank0:1+:0.3"}});
  REQUIRE(wait_for_file(f.workdir + "/ckpt/step-5"));
  const Finished followed = f.evaluate({"--follow"});
  INFO(followed.err);
  CHECK(train.wait().code == 0);
  REQUIRE(followed.code == 0);
  const std::vector<TextRow> rows = metric_rows(f.workdir + "/eval");
  CHECK(rows.back().at("step") == "60");
  // Those of every fifth step are kept; that of step 1 may be deleted before it is evaluated.
  CHECK(rows.size() - (rows.front().at("step") == "1" ? 1 : 0) == 12);
  CHECK(contains(followed.err, fmt::format("Evaluated {} checkpoints", rows.size())));
}

TEST_CASE("bvtrain eval passes over a checkpoint that the run deletes meanwhile") {
  const EvaluatedRun f;
  REQUIRE(f.train().code == 0);
  Child eval({"eval", "--workdir", f.workdir, "--once"},
             {{"BVTRAIN_SLEEP_AT", "evaluate.row:1:4"}});
  REQUIRE(wait_for_file(f.workdir + "/eval/config.yaml"));  // the first one is being evaluated
  fs::remove_all(f.workdir + "/ckpt/step-10");
  const Finished finished = eval.wait();
  INFO(finished.err);
  CHECK(finished.code == 0);
  CHECK(contains(finished.err, "skipped: the run has deleted " + f.workdir + "/ckpt/step-10\n"));
  for (const TextRow& row : metric_rows(f.workdir + "/eval")) CHECK(row.at("step") != "10");
  CHECK(metric_rows(f.workdir + "/eval").back().at("step") == "20");
}

TEST_CASE("bvtrain eval refuses a finished run that has no checkpoint") {
  const EvaluatedRun f;
  REQUIRE(f.train_with({"total_steps=0"}).code == 0);
  const Finished none = f.evaluate();
  INFO(none.err);
  CHECK(none.code == 2);
  CHECK(none.err.ends_with(f.workdir + ": error: the run has finished and has no checkpoint\n"));
  fs::remove(f.workdir + "/DONE");
  const Finished later = f.evaluate();
  INFO(later.err);
  CHECK(later.code == 0);
  CHECK(contains(later.err, "Evaluated nothing: " + f.workdir + " has no checkpoint yet\n"));
  CHECK_FALSE(contains(later.err, "the rows are in"));
}

TEST_CASE("bvtrain eval passes over what it cannot read, and refuses what makes no sense") {
  const EvaluatedRun f;
  REQUIRE(f.train().code == 0);
  const std::string state = f.step(10) + "/state-00000-of-00001.safetensors";
  const std::string whole = read_text(state);
  fs::resize_file(state, 1000);
  const Finished evaluated = f.evaluate();
  INFO(evaluated.err);
  CHECK(evaluated.code == 0);
  CHECK(contains(evaluated.err, "skipped: " + f.workdir + "/ckpt/step-10: error: "));
  CHECK(metric_rows(f.workdir + "/eval").size() == 3);

  CHECK(f.evaluate({"--ckpt", "7"}).code == 2);
  CHECK(f.evaluate({"--ckpt", "5", "--follow"}).err ==
        "bvtrain eval: error: --ckpt and --best write no rows; leave out --follow and --output\n");
  CHECK(f.evaluate({"--json"}).code == 2);
  for (const char* flag : {"--follow", "--best"})
    CHECK(f.evaluate({"--once", flag}).err ==
          "--once: error: evaluates all new checkpoints; leave out --follow, --ckpt and --best\n");
  const Finished unknown = f.evaluate({"--ckpt", "5", "--set", "evals.test.batch_sise=100"});
  CHECK(unknown.code == 2);
  CHECK(contains(unknown.err, "unknown key 'evals.test.batch_sise'"));
  const Finished idle = f.evaluate({"--ckpt", "5", "--set", "lr=7"});
  CHECK(idle.code == 2);
  CHECK(contains(idle.err, "--set lr=7: error: has no effect on an evaluation; it uses evals.*, "));
  CHECK(f.evaluate({"--ckpt", "5", "--best"}).err ==
        "bvtrain eval: error: give either --ckpt or --best\n");
  // Images that the model cannot take.
  const std::string one_shape = "value_range(-1, 1)|",
                    other_shape = one_shape + "reshape([4, 4, 4])|";
  const std::string wrong_shape =
      ": error: gives images of 4x4x4, but the model was built for 8x8x1 and cannot take them\n";
  const std::string set =
      "evals.test.pp_fn='" + other_shape +
      R"(onehot(10, key="label", key_result="labels")|keep("image", "labels")')";
  const Finished shapes = f.evaluate({"--ckpt", "5", "--set", set});
  CHECK(shapes.code == 2);
  CHECK(shapes.err.ends_with("--set " + set + wrong_shape));
  write(f.dir / "shapes.yaml",
        "evals:\n" + replace_all(digits_evaluator("half", {}), one_shape, other_shape));
  const Finished in_file = f.evaluate({"--ckpt", "5", "--config", f.dir / "shapes.yaml"});
  CHECK(in_file.code == 2);
  CHECK(in_file.err.ends_with(f.dir / "shapes.yaml" + ": evals.half.pp_fn" + wrong_shape));
  // These evaluators learn the names of their metrics only when they run.
  const std::vector<std::string> by_class = {"prefix: val_", "metrics: [f1_per_class]"};
  write(f.dir / "clash.yaml",
        "evals:\n" + replace_all(replace_all(digits_evaluator("a", by_class) +
                                                 digits_evaluator("b", by_class),
                                             "type: classification", "type: class_metrics"),
                                 "    loss_name: softmax_xent\n", ""));
  const Finished clash = f.evaluate({"--ckpt", "5", "--config", f.dir / "clash.yaml"});
  CHECK(clash.code == 2);
  CHECK(contains(clash.err,
                 "[evals.b] measures 'val_f1@0', which is also a metric of evaluator 'a': give it "
                 "another `prefix`\n"));
  for (const std::string key : {"compute_threads", "input.threads"}) {
    const Finished threads = f.evaluate({"--ckpt", "5", "--set", key + "=0"});
    CHECK(threads.code == 2);
    CHECK(contains(threads.err, key + ": must be between 1 and 4096, got 0\n"));
  }
  // A data set of another size gives other numbers.
  const Finished other =
      f.evaluate({"--ckpt", "20", "--json", "--set", "evals.test.data.split=test[:50]"});
  INFO(other.err);
  CHECK(other.code == 0);
  // A file needs nothing but evaluators; the rows of others go elsewhere.
  write(f.dir / "more.yaml", "evals:\n" + digits_evaluator("half", {}, "test[:50%]"));
  const std::string others = f.workdir +
                             "/eval: error: has rows of other evaluators; choose another "
                             "folder with --output, or move this one away\n";
  // Also if there is nothing new to evaluate.
  CHECK(f.evaluate({"--config", f.dir / "more.yaml", "--follow"}).err.ends_with(others));
  CHECK(f.evaluate({"--set", "evals.test.data.split=train"}).err.ends_with(others));
  CHECK(contains(f.evaluate({"--set", "evals.test.batch_sise=9"}).err,
                 "unknown key 'evals.test.batch_sise'"));
  CHECK(f.evaluate({"--set", "lr=7"}).err == idle.err);
  CHECK(contains(f.evaluate({"--set", "evals.test.batch_size=9"}).err, "Evaluated 0 checkpoints"));
  const Finished elsewhere =
      f.evaluate({"--config", f.dir / "more.yaml", "--output", f.dir / "half"});
  INFO(elsewhere.err);
  CHECK(elsewhere.code == 0);
  CHECK(metric_rows(f.dir / "half").back().contains("half/loss"));
  REQUIRE(f.train({"--accept-changes", "--set", "total_steps=25"}).code == 0);
  CHECK(f.evaluate({"--config", f.dir / "more.yaml"}).err.ends_with(others));
  // The file is whole again, as after a copy. Rows that cannot be computed again stay.
  write(state, whole);
  fs::rename(f.step(20), f.dir / "away");
  const Finished kept = f.evaluate();
  INFO(kept.err);
  CHECK(contains(kept.err,
                 "skipped: step 10 could not be read before, and the checkpoint of the "
                 "later row 20 is gone; to evaluate this step, choose another --output"));
  CHECK(metric_rows(f.workdir + "/eval").size() >= 3);
  fs::rename(f.dir / "away", f.step(20));
  const Finished late = f.evaluate();
  INFO(late.err);
  CHECK(contains(late.err, "step 10 is evaluated after later steps; the rows from there on are "));
  CHECK(contains(late.err, "Evaluated 4 checkpoints"));
  CHECK(f.evaluate({"--config", f.dir / "no.yaml"}).code == 2);
  CHECK(contains(f.evaluate({"--output", f.workdir}).err, "is the folder of the run itself"));
  const std::string photos = f.dir / "photos";
  write(photos + "/cat/1.jpg", "x");
  CHECK(run({"eval", "--workdir", photos}).err ==
        photos + ": error: is not the workdir of a run: it has no run.json and no ckpt/\n");
  CHECK(f.evaluate({"--output", photos}).err ==
        "--output " + photos +
            ": error: has images, folders or a report that bvtrain eval did not write; choose a "
            "new or empty folder\n");
  CHECK(std::distance(fs::directory_iterator(photos), {}) == 1);

  const Finished gone = run({"eval", "--workdir", f.dir / "gone"});
  CHECK(gone.code == 2);
  CHECK(gone.err == f.dir / "gone" + std::string(": error: no such folder\n"));
  CHECK(!exists(f.dir / "gone"));
}

TEST_CASE("bvtrain eval replaces the rows of weights that the run has trained again") {
  const EvaluatedRun f;
  REQUIRE(f.train().code == 0);
  REQUIRE(f.evaluate().code == 0);
  const std::vector<TextRow> old = metric_rows(f.workdir + "/eval");
  for (const int64_t step : {15, 20}) fs::remove_all(f.step(step));
  fs::remove(f.workdir + "/DONE");
  REQUIRE(f.train({"--accept-changes", "--set", "lr=0.1"}).code == 0);
  const Finished again = f.evaluate();
  INFO(again.err);
  CHECK(again.code == 0);
  CHECK(contains(again.err, "step 15 was saved again after its evaluation"));
  CHECK(contains(again.err, "Evaluated 2 checkpoints"));
  const std::vector<TextRow> rows = metric_rows(f.workdir + "/eval");
  REQUIRE(rows.size() == 4);
  CHECK(rows[1] == old[1]);
  CHECK(rows[3].at("test/loss") == metric_rows(f.workdir).back().at("test/loss"));
  CHECK(rows[3].at("test/loss") != old[3].at("test/loss"));
  // An event of step 15 with SessionLog.START: TensorBoard drops the points from there on.
  CHECK(std::any_of(fs::directory_iterator(f.workdir + "/eval/tb"), fs::directory_iterator(),
                    [](const fs::directory_entry& file) {
                      return contains(read_text(file.path()), "\x10\x0f\x3a\x02\x08\x01");
                    }));

  // A run that starts over, in the same folder.
  for (const char* name : {"ckpt", "metrics.jsonl", "DONE"}) fs::remove_all(f.workdir + "/" + name);
  REQUIRE(f.train_with({"seed=5"}).code == 0);
  CHECK(contains(f.evaluate().err, "Evaluated 4 checkpoints"));
  CHECK(part(metric_rows(f.workdir + "/eval").back(), "test/") ==
        part(metric_rows(f.workdir).back(), "test/"));
}

TEST_CASE(
    "bvtrain eval keeps a row of discarded weights if a later row could not be measured again") {
  const EvaluatedRun f;
  REQUIRE(f.train().code == 0);
  REQUIRE(f.evaluate().code == 0);
  // As if the run had saved step 10 in an earlier start, and step 20 were new.
  const std::string record = f.workdir + "/eval/evaluated.json";
  auto evaluated = nlohmann::json::parse(read_text(record));
  auto& started = evaluated.at("10").at(1);
  started = started.get<int64_t>() - 1;
  write(record, evaluated.dump());
  const std::string metrics = f.workdir + "/eval/metrics.jsonl", all = read_text(metrics);
  write(metrics, all.substr(0, all.find("{\"step\": 20,")));
  for (const int64_t step : {10, 15}) fs::remove_all(f.step(step));
  const Finished later = f.evaluate();
  INFO(later.err);
  CHECK(later.code == 0);
  CHECK(contains(later.err,
                 metrics + ": the run trained step 10 again, so its row is out of date; it stays, "
                           "because replacing it would also remove the row of step 15, whose "
                           "checkpoint is gone\n"));
  CHECK(contains(later.err, "Evaluated 1 checkpoint;"));
  CHECK(metric_rows(f.workdir + "/eval").size() == 4);
}

TEST_CASE("bvtrain eval goes on after a harmless change, and after a first try with other keys") {
  const EvaluatedRun f;
  const auto train = [&](std::vector<std::string> flags) {
    for (const char* value :
         {"evals.only_job.type=mean", "evals.only_job.pred=loss", "evals.only_job.loss_name=null"})
      flags.insert(flags.end(), {"--set", value});
    return f.train(flags).code;
  };
  REQUIRE(train({}) == 0);
  CHECK(
      f.evaluate({"--set", "evals.test.label_key=labels"}, {{"BVTRAIN_CRASH_AT", "evaluate.row:1"}})
          .code == 137);
  REQUIRE(f.evaluate().code == 0);
  REQUIRE(train({"--accept-changes", "--set", "total_steps=25", "--set",
                 "evals.test.log_steps=2"}) == 0);
  const Finished more = f.evaluate();
  INFO(more.err);
  CHECK(more.code == 0);
  CHECK(contains(more.err, "Evaluated 1 checkpoint;"));
  // Class weights do not affect `pred: loss`.
  REQUIRE(train({"--accept-changes", "--set", "total_steps=28", "--set",
                 "task_kw={class_weights: balanced}"}) == 0);
  const Finished weighted = f.evaluate();
  INFO(weighted.err);
  CHECK(weighted.code == 0);
  // Another loss is not harmless to an evaluator that measures with it.
  REQUIRE(train({"--accept-changes", "--set", "total_steps=30", "--set", "loss=sigmoid_xent"}) ==
          0);
  const Finished other_loss = f.evaluate();
  INFO(other_loss.err);
  CHECK(other_loss.code == 2);
  CHECK(contains(other_loss.err, "/eval: error: has rows of other evaluators; "));
}

TEST_CASE("bvtrain eval goes on after a default was written out") {
  const EvaluatedRun f;
  REQUIRE(f.train().code == 0);
  REQUIRE(f.evaluate().code == 0);
  const std::string all = "All 4 checkpoints have a row already";
  using Flags = std::vector<std::string>;
  for (const Flags& flags : {Flags{"--set", "evals.test.label_key=labels"},
                             Flags{"--config", f.workdir + "/config.yaml"}}) {
    const Finished again = f.evaluate(flags);
    INFO(again.err);
    CHECK(again.code == 0);
    CHECK(contains(again.err, all));
  }
  // The run's own resolved config changes nothing for the run.
  write(f.dir / "resolved.yaml", read_text(f.workdir + "/config.yaml"));
  REQUIRE(run({"--config", f.dir / "resolved.yaml", "--workdir", f.workdir, "--accept-changes",
               "--set", "total_steps=25"})
              .code == 0);
  const Finished more = f.evaluate();
  INFO(more.err);
  CHECK(more.code == 0);
  CHECK(contains(more.err, "Evaluated 1 checkpoint;"));
}

TEST_CASE("bvtrain eval says which evaluator the rows lack") {
  const EvaluatedRun f;
  REQUIRE(f.train().code == 0);
  REQUIRE(f.evaluate({"--set", "evals.only_job=null"}).code == 0);
  const std::string rows = ": the rows of steps 5 .. 20 have no metrics of ",
                    hint = "; to measure them, choose another folder with --output\n";
  const Finished plain = f.evaluate();
  INFO(plain.err);
  CHECK(plain.code == 0);
  CHECK(contains(plain.err, f.workdir + "/eval" + rows + "only_job" + hint));
  const Finished named = f.evaluate({"--config", f.config});
  INFO(named.err);
  CHECK(named.code == 2);
  CHECK(contains(named.err, f.workdir + "/eval: error" + rows + "'only_job'" + hint));
  CHECK(f.evaluate({"--set", "evals.only_job.batch_size=50"}).code == 2);
  CHECK(metric_rows(f.workdir + "/eval").size() == 4);
  CHECK(f.evaluate({"--config", f.config, "--output", f.dir / "all"}).code == 0);
}

TEST_CASE("a new folder of bvtrain eval has rows of the evaluators that the run has now") {
  const EvaluatedRun f;
  REQUIRE(f.train().code == 0);
  REQUIRE(f.train({"--accept-changes", "--set", "total_steps=25", "--set",
                   "evals.test.data.split=test[:50]"})
              .code == 0);
  const Finished evaluated = f.evaluate({"--output", f.dir / "fresh"});
  INFO(evaluated.err);
  CHECK(evaluated.code == 0);
  const std::vector<TextRow> rows = metric_rows(f.dir / "fresh");
  REQUIRE(rows.size() == 5);
  std::map<std::string, TextRow> in_loop;
  for (const TextRow& row : metric_rows(f.workdir)) in_loop[row.at("step")] = row;
  CHECK(part(rows.back(), "test/") == part(in_loop.at("25"), "test/"));
  // When the run was at step 5, it had another evaluator.
  CHECK(rows.front().at("step") == "5");
  CHECK(part(rows.front(), "test/") != part(in_loop.at("5"), "test/"));
}

TEST_CASE("bvtrain eval ends with code 7 if the run has failed, and refuses generated data") {
  const EvaluatedRun f;
  REQUIRE(f.train({"--synthetic", "--set", "total_steps=5"}).code == 0);
  const Finished generated = f.evaluate();
  CHECK(generated.code == 2);
  CHECK(contains(generated.err,
                 ": error: belongs to a run with --synthetic, but its config names real data; it "
                 "cannot be evaluated\n"));
  const DigitsRun other(read_text(f.config));
  write(other.workdir + "/result.json", R"({"exit_code": 4, "status": "diverged"})");
  const Finished failed = run({"eval", "--workdir", other.workdir, "--follow"});
  CHECK(failed.code == 7);
  CHECK(contains(failed.err, other.workdir + ": error: the run has failed with code 4\n"));
}

}  // namespace bv::test
