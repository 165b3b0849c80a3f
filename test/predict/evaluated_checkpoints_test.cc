// Which checkpoints bvtrain eval has evaluated, and when it stops waiting.
#include "lib/predict/evaluated_checkpoints.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/workdir/workdir.h"
#include "lib/predict/evaluate_run.h"
#include "test/support/error.h"
#include "test/support/folder.h"

namespace bv::test {

TEST_CASE("a checkpoint that was saved anew has no row") {
  const TempFolder dir;
  const std::string file = dir / "evaluated.json";
  EvaluatedCheckpoints done(file, {5, 10});
  CHECK(done.contains(5, "any"));  // there is no record yet
  CHECK_FALSE(done.contains(7, "any"));
  done.add(15, "a");
  CHECK_FALSE(done.has_skipped());
  done.skip(20, "b");
  CHECK(done.has_skipped());
  CHECK(done.contains(20, "b"));
  CHECK_FALSE(done.contains(20, "c"));
  CHECK(done.last_row() == 15);
  EvaluatedCheckpoints later(file, {5, 10, 15});
  CHECK(later.contains(15, "a"));
  CHECK_FALSE(later.contains(15, "c"));
  CHECK_FALSE(later.contains(20, "b"));  // it may be readable by then
  later.remove_from(10);
  CHECK(later.last_row() == 5);
  CHECK_FALSE(later.contains(15, "a"));
  // Killed then: the rows may be there or not.
  for (const std::set<int64_t>& rows : {std::set<int64_t>{5, 10, 15}, std::set<int64_t>{5}}) {
    const EvaluatedCheckpoints after(file, rows);
    CHECK(after.contains(5, "any"));
    CHECK_FALSE(after.contains(10, "any"));
    CHECK_FALSE(after.contains(15, "a"));
    CHECK_FALSE(after.contains(20, "b"));
  }
  later.add(15, "c");
  CHECK(EvaluatedCheckpoints(file, {5, 15}).contains(15, "c"));
  CHECK_FALSE(EvaluatedCheckpoints(file, {5, 15}).started(15));
  later.add(15, "c", 1764425898123);
  const EvaluatedCheckpoints timed(file, {5, 15});
  CHECK(timed.contains(15, "c"));
  CHECK(timed.started(15) == 1764425898123);
  later.remove_from(15);
  CHECK_FALSE(later.started(15));
  // Without its rows, the record does not count.
  CHECK_FALSE(EvaluatedCheckpoints(file, {}).contains(15, "a"));
  write(file, "{\"5\": 1");
  CHECK(EvaluatedCheckpoints(file, {5}).contains(5, "any"));
}

TEST_CASE("a folder of rows belongs to one run, even if the folder of the run is moved") {
  const TempFolder dir;
  const auto started = [](const std::string& when) {
    return R"({"first_started": ")" + when + "\"}";
  };
  dir.write("a/run.json", started("monday"));
  dir.write("b/run.json", started("monday"));  // another run of the same second
  dir.write("rows/metrics.jsonl", "{\"step\": 5, \"test/loss\": 1}\n");
  const std::string record = dir / "rows/evaluated.json";
  EvaluatedCheckpoints done(record, {5});
  CHECK_FALSE(done.run());  // a record of before names none
  done.set_run(run_of_rows(dir / "a"));
  done.add(5, "x");
  const EvaluatedCheckpoints later(record, {5});
  CHECK(later.contains(5, "x"));
  REQUIRE(later.run());
  CHECK(later.run()->first_started == "monday");

  const auto refusal = [&](const std::string& run) {
    return error_of([&] { evaluate_new_checkpoints({dir / run}, dir / "rows"); });
  };
  const std::string rows = read_text(dir / "rows/metrics.jsonl");
  CHECK(refusal("a").empty());
  const std::string refused = dir / "rows" + ": error: has rows of the run in " +
                              later.run()->workdir +
                              "; choose another folder with --output, or move this one away";
  CHECK(refusal("b") == refused);
  CHECK(read_text(dir / "rows/metrics.jsonl") == rows);
  std::filesystem::rename(dir / "a", dir / "moved");
  CHECK(refusal("moved").empty());
  dir.write("c/run.json", started("tuesday"));
  CHECK(refusal("c") == refused);
  dir.write("a/run.json", started("tuesday"));  // started over
  CHECK(refusal("a").empty());

  // Rows of another run in the folder of a run.
  dir.write("d/run.json", started("wednesday"));
  dir.write("d/eval/metrics.jsonl", rows);
  EvaluatedCheckpoints foreign(dir / "d/eval/evaluated.json", {5});
  foreign.set_run(run_of_rows(dir / "b"));
  foreign.add(5, "x");
  CHECK(error_of([&] { evaluate_new_checkpoints({dir / "d"}, dir / "d/eval"); }) ==
        dir / "d/eval" + ": error: has rows of the run in " + run_of_rows(dir / "b").workdir +
            "; choose another folder with --output, or move this one away");

  CHECK_FALSE(is_same_run({dir / "gone", ""}, {dir / "other", ""}));  // not known when they started

  write(record, R"({"5": "x", "run": {"workdir": 1}})");
  CHECK_FALSE(EvaluatedCheckpoints(record, {5}).run());
}

TEST_CASE("the identity of a damaged checkpoint is that of its manifest") {
  const TempFolder dir;
  CHECK_FALSE(EvaluatedCheckpoints::identity(dir.path()));
  dir.write(kManifestName, "a");
  const auto first = EvaluatedCheckpoints::identity(dir.path());
  dir.write(kManifestName, "b");
  CHECK(first);
  CHECK(EvaluatedCheckpoints::identity(dir.path()) != first);
}

TEST_CASE("a checkpoint that was saved twice with the same weights keeps its row") {
  const TempFolder dir;
  const Workdir run(dir / "run");
  const std::string folder = run.ckpt().step(5);
  const auto save = [&](bool keep, const char* starts) {
    Snapshot snapshot;
    snapshot.step = 5;
    snapshot.tensors["params/bias"] = at::full({10}, 1.0, at::kFloat);
    snapshot.meta = {{"config", "lr: 0.1"}, {"starts", nlohmann::json::parse(starts)}};
    Checkpointer checkpointer(run);
    checkpointer.save(std::move(snapshot), keep);
    checkpointer.wait();
    return EvaluatedCheckpoints::identity(folder).value();
  };
  const std::string first = save(false, "[[0, 7]]");
  EvaluatedCheckpoints done(dir / "evaluated.json", {});
  CHECK(done.new_identity(5, folder) == first);
  done.add(5, first);
  CHECK_FALSE(done.new_identity(5, folder));
  // As at an early stop; and by a start that continued after this step.
  for (const char* starts : {"[[0, 7]]", "[[0, 7], [6, 9]]"}) {
    CHECK(save(true, starts) != first);
    CHECK_FALSE(done.new_identity(5, folder));
    CHECK_FALSE(EvaluatedCheckpoints(dir / "evaluated.json", {5}).new_identity(5, folder));
  }
  const std::string again = save(true, "[[0, 7], [3, 9]]");  // by a start that trained it again
  CHECK(done.new_identity(5, folder) == again);
  // Earlier versions recorded only the hash of the manifest.
  const std::string manifest = again.substr(0, again.find(' '));
  dir.write("evaluated.json", fmt::format(R"({{"5": ["{}", 9]}})", manifest));
  EvaluatedCheckpoints earlier(dir / "evaluated.json", {5});
  CHECK_FALSE(earlier.new_identity(5, folder));
  save(false, "[[0, 7]]");
  CHECK(earlier.new_identity(5, folder));
}

TEST_CASE("a manifest is read again only after it was replaced") {
  const TempFolder dir;
  const std::string manifest = dir.write(kManifestName, "a");
  EvaluatedCheckpoints done(dir / "evaluated.json", {});
  const auto first = done.new_identity(5, dir.path());
  REQUIRE(first);
  CHECK(done.new_identity(5, dir.path()) == first);  // it has no row yet
  done.add(5, *first);
  CHECK_FALSE(done.new_identity(5, dir.path()));
  const auto time = std::filesystem::last_write_time(manifest);
  write(manifest, "b");
  std::filesystem::last_write_time(manifest, time);
  CHECK_FALSE(done.new_identity(5, dir.path()));  // looks as before, so it was not read
  done.remove_from(5);
  CHECK(done.new_identity(5, dir.path()) == EvaluatedCheckpoints::identity(dir.path()));
  done.add(5, *first);
  std::filesystem::last_write_time(manifest, time + std::chrono::seconds(1));
  CHECK(done.new_identity(5, dir.path()) == EvaluatedCheckpoints::identity(dir.path()));
}

TEST_CASE("an evaluation that follows a run ends when a folder is deleted") {
  const auto after_removal_of = [](const TempFolder& dir, const std::string& name, Exit code) {
    dir.write("run/config.yaml", "lr: 0.1\n");
    EvaluateRequest request = {dir / "run"};
    request.follow = true;
    std::thread remover([&] {
      constexpr std::chrono::milliseconds kPause{10};
      for (int i = 0; i < 3000 && !exists(dir / "eval/.lock"); ++i)
        std::this_thread::sleep_for(kPause);
      std::this_thread::sleep_for(100 * kPause);  // until it waits
      std::filesystem::remove_all(dir / name);
    });
    const std::string error =
        error_of([&] { evaluate_new_checkpoints(request, dir / "eval"); }, code);
    remover.join();
    return error;
  };
  const TempFolder run, rows;
  CHECK(after_removal_of(run, "run", Exit::peer) ==
        run / "run" +
            ": error: the run is gone: its files were moved or deleted, so no checkpoint "
            "follows");
  CHECK_THAT(after_removal_of(rows, "eval", Exit::storage),
             Catch::StartsWith(rows / "eval" + ": error: the workdir is gone: "));
}

TEST_CASE("an evaluation leaves the folders of runs and the configs of users alone") {
  const TempFolder dir;
  dir.make("run");
  const EvaluateRequest request = {dir / "run"};
  const auto refusal = [&](const std::string& output) {
    return error_of([&] { evaluate_new_checkpoints(request, dir / output); });
  };
  const std::string hint = "; choose another folder with --output";
  for (const std::string path : {"a/run.json", "b/ckpt/LAST"}) {
    dir.write(path, "x");
    const std::string folder = path.substr(0, 1), name = path == "a/run.json" ? "run.json" : "ckpt";
    CHECK(refusal(folder) == dir / folder + ": error: is the folder of a run: " + dir / folder +
                                 "/" + name + " exists" + hint);
  }
  const std::string config = dir.write("c/config.yaml", "lr: 0.1\n");
  CHECK(refusal("c") ==
        dir / "c" + ": error: has a config.yaml that bvtrain eval did not write" + hint);
  CHECK(read_text(config) == "lr: 0.1\n");
  dir.write("d/config.yaml", "{\"test\":{}}\n");
  CHECK(refusal("d").empty());
}

TEST_CASE("an evaluation that follows a run gives up some time after the run has failed") {
  const TempFolder dir;
  dir.write("run/result.json", R"({"exit_code": 5})");
  EvaluateRequest request = {dir / "run"};
  request.follow = true;
  request.patience = 0.1;
  CHECK(error_of([&] { evaluate_new_checkpoints(request, dir / "eval"); }, Exit::peer) ==
        dir / "run" + std::string(": error: the run failed with code 5 and was not continued "
                                  "within 0 s"));
}

}  // namespace bv::test
