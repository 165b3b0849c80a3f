// What a start reads from the files of an earlier one: DONE, run.json, and signs of lost
// checkpoints.
#include "lib/ckpt/workdir/earlier_run.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/config/load_config.h"
#include "lib/util/file.h"
#include "test/support/error.h"
#include "test/support/folder.h"

namespace bv::test {

TEST_CASE("earlier run: DONE counts beside a checkpoint or a row of its step, or no checkpoint") {
  const TempFolder dir;
  const Workdir workdir(dir.path());
  CHECK(!finished_at(workdir));
  dir.write("DONE", "20\n");
  CHECK(!finished_at(workdir));
  dir.make("ckpt/step-10");
  dir.write("metrics.jsonl", "{\"step\": 10}\n{\"step\": 20");
  CHECK(!finished_at(workdir));
  dir.make("ckpt/step-20");
  CHECK(finished_at(workdir)->step == 20);
  std::filesystem::remove_all(dir / "ckpt");
  dir.write("metrics.jsonl", "{\"step\": 10}\n{\"step\": 20}\n");
  CHECK(finished_at(workdir)->step == 20);
  dir.write("metrics.jsonl", "{\"step\": 0}\n{\"step\": 2}\n");  // log_training_steps: 0
  CHECK(finished_at(workdir)->step == 20);  // and keep_ckpt_steps: 0, so there are no checkpoints
  dir.make("ckpt/step-10");
  CHECK(!finished_at(workdir));
  dir.write("DONE", "2O\n");
  CHECK(!finished_at(workdir));
}

TEST_CASE("earlier run: a DONE that the disk cannot read is not taken for missing") {
  const TempFolder dir;
  std::filesystem::create_symlink("/proc/self/mem", dir / "DONE");  // reading it fails with EIO
  CHECK(error_of([&] { finished_at(Workdir(dir.path())); }, Exit::storage) ==
        (dir / "DONE") + ": error: cannot read: Input/output error");
}

TEST_CASE("earlier run: lost checkpoints are told from a run that has had none") {
  const TempFolder dir;
  const Workdir workdir(dir.path());
  const auto line = [&] { return error_of([&] { require_checkpoints(workdir); }); };
  CHECK(line() == "");
  dir.make("ckpt");
  dir.write("metrics.jsonl", "{\"step\": 0}\n{\"step\": 7}\n");
  CHECK(line() == "");  // killed before its first save
  dir.write("result.json", R"({"checkpoint": null})");
  CHECK(line() == "");
  dir.write("result.json", R"({"checkpoint": "/w/ckpt/step-5"})");
  CHECK(line() ==
        dir / "ckpt" + std::string(": error: result.json names the checkpoint /w/ckpt/step-5, but "
                                   "there is none here, so the run cannot continue; put its folder "
                                   "back, or remove metrics.jsonl to start the run from the "
                                   "beginning, or choose another --workdir"));
  dir.write("result.json", "[");
  CHECK(line() == "");
  dir.write("run.json", R"({"has_saved": false})");
  CHECK(line() == "");
  dir.write("run.json", R"({"has_saved": true})");
  CHECK(line() ==
        dir / "ckpt" + std::string(": error: run.json says that the run has saved a checkpoint, "
                                   "but there is none here, so the run cannot continue; put its "
                                   "folder back, or remove metrics.jsonl to start the run from the "
                                   "beginning, or choose another --workdir"));
  std::filesystem::remove(dir / "ckpt");
  CHECK(line() ==
        dir.path() +
            ": error: metrics.jsonl has rows up to step 7, but the folder ckpt/ is gone, so the "
            "run cannot continue; put ckpt/ back, or remove metrics.jsonl to start the run from "
            "the beginning, or choose another --workdir");
  dir.write("ckpt/LAST", "step-5\n");
  CHECK(line() ==
        dir / "ckpt" +
            ": error: LAST names step-5, but there is no checkpoint here, so the run cannot "
            "continue; put its folder back, or remove LAST and metrics.jsonl to start the run from "
            "the beginning, "
            "or choose another --workdir");
  dir.make("ckpt/step-5");
  CHECK(line() == "");
}

TEST_CASE("earlier run: run.json is read, or put aside if it is damaged") {
  const TempFolder dir;
  const std::string file = dir / "run.json";
  CHECK(read_earlier_starts(file).count == 0);
  dir.write("run.json", R"({"restarts": 2, "started": "b", "first_started": "a",
                            "config_changes": [{"step": 3, "changes": ["lr: 1 -> 2"]}]})");
  const EarlierStarts starts = read_earlier_starts(file);
  CHECK(starts.count == 3);
  CHECK(starts.first_started == "a");
  CHECK(starts.config_changes.size() == 1);
  CHECK_FALSE(exists(file + ".damaged"));
  int damaged = 0;
  for (const char* text :
       {"", "[]", "{\"restarts\"", R"({"restarts": "2"})", R"({"restarts": -1})",
        R"({"started": 3})", R"({"config_changes": {}})", R"({"config_changes": [1]})",
        R"({"config_changes": [{"step": "3", "changes": []}]})",
        R"({"config_changes": [{"step": 3, "changes": [1]}]})", R"({"metric_owners": []})",
        R"({"metric_owners": {"val/loss": 1}})",
        R"({"config_changes": [{"step": 3, "changes": [], "harmless": [1]}]})",
        R"({"rollbacks": [{"step": 3, "to": 2, "examples": 9007199254740993}]})"}) {
    INFO(text);
    dir.write("run.json", text);
    CHECK(read_earlier_starts(file).count == 0);
    ++damaged;
    CHECK(read_text(file + (damaged == 1 ? ".damaged" : fmt::format(".damaged-{}", damaged))) ==
          text);
  }
  // Copying such a value would exhaust the stack.
  dir.write("run.json", R"({"config_changes": [{"step": 1, "changes": [], "z": )" +
                            std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}]}");
  CHECK(read_earlier_starts(file).count == 0);
  CHECK(exists(fmt::format("{}.damaged-{}", file, damaged + 1)));
}

TEST_CASE("earlier run: a changed evaluator without a prefix does not change the others' metrics") {
  const Config config =
      parse_config("evals:\n  all: {prefix: ''}\n  val: {type: classification}\n", "c.yaml");
  const auto changes =
      nlohmann::json::parse(R"([{"step": 3, "changes": [], "evaluators": ["all", "gone"]}])");
  const MeasuredAnew changed = changed_metrics(changes, config, {});
  CHECK(last_step_before_change(changed, "loss") == 3);
  CHECK(last_step_before_change(changed, "gone/loss") == 3);
  CHECK(last_step_before_change(changed, "val/loss") == -1);
  CHECK(changed_metrics(nlohmann::json::array(), config, {{"loss", "all"}}).empty());
}

TEST_CASE("earlier run: a changed evaluator does not change the metrics of one with its prefix") {
  const Config config = parse_config("evals:\n  cm: {prefix: val/}\n  val: {}\n", "c.yaml");
  const auto changes =
      nlohmann::json::parse(R"([{"step": 3, "changes": [], "evaluators": ["cm"]}])");
  const MeasuredAnew changed =
      changed_metrics(changes, config, {{"val/f1_macro", "cm"}, {"val/prec@1", "val"}});
  CHECK(last_step_before_change(changed, "val/f1_macro") == 3);
  CHECK(last_step_before_change(changed, "val/prec@1") == -1);
  CHECK(last_step_before_change(changed, "val/of_either") == 3);
}

}  // namespace bv::test
