// nan: skip and rollback, with the real binary: the run reports each bad step, counts them over
// restarts, and ends when there are too many.
#include <catch2/catch.hpp>
#include <cmath>

#include "test/e2e/bad_steps.h"

namespace bv::test {

TEST_CASE("skipped steps are told, counted over restarts, and limited") {
  for (const std::string devices : {"cpu", "cpu:2"}) {
    INFO(devices);
    TempFolder dir;
    const std::string workdir = dir / "w";
    const auto train = [&](const std::string& limit) {
      std::vector<std::string> args =
          diverging(workdir, {"nan_limit=" + limit, "sharding_strategy=zero1"});
      args.insert(args.end(), {"--devices", devices});
      return run(args);
    };
    const Finished ended = train("3");
    INFO(ended.err);
    CHECK(ended.code == 4);
    CHECK(contains(ended.err, "the step is skipped: the loss is "));
    CHECK(contains(ended.err, "(3 of at most 3)"));
    CHECK(contains(ended.err, " 3 steps were skipped before, as many as nan_limit allows"));
    const std::vector<TextRow> rows = metric_rows(workdir);
    CHECK(rows.back().at("skipped_steps") == "3");
    // It continues from the checkpoint of step 4, before which it has skipped three steps.
    const Finished again = train("5");
    INFO(again.err);
    CHECK(again.code == 4);
    CHECK(contains(again.err, "(4 of at most 5)"));
    CHECK(contains(again.err, "step 7: the loss is "));
    CHECK(metric_rows(workdir).back().at("skipped_steps") == "5");
  }
}

TEST_CASE(
    "a run returns to its last checkpoint and leaves the bad examples out, also after a kill") {
  for (const int ranks : {1, 2}) {
    INFO(ranks);
    const std::vector<std::string> flags = {"--devices", fmt::format("cpu:{}", ranks), "--set",
                                            "sharding_strategy=zero1"};
    const int shards = ranks;
    const PoisonedRun whole;
    const Finished finished = whole.train(flags);
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    const nlohmann::json back = whole.rollbacks();
    REQUIRE(!back.empty());
    // With sharded state the bad step cannot be repeated: the next checkpoint comes after it.
    CHECK(contains(finished.err, "bvtrain replay") == (ranks == 1));
    CHECK(contains(finished.err,
                   fmt::format("[{}] the bad step's batch and its examples' names are in {}/"
                               "post-mortem/step-{}; the weights before it are not, because the "
                               "state is sharded\n",
                               back[0].at("step").get<int64_t>(), whole.workdir,
                               back[0].at("step").get<int64_t>())) == (ranks == 2));
    const int64_t bad = back[0].at("step"), to = back[0].at("to");
    CHECK(to < bad);
    CHECK(back[0].at("examples") == (bad - to) * 64);
    CHECK(contains(
        finished.err,
        fmt::format(
            "the run returns to step {} and skips {} training examples (1 of at most 10 times)", to,
            (bad - to) * 64)));
    const std::vector<TextRow> rows = metric_rows(whole.workdir);
    CHECK(rows.size() == 15);  // 0 .. 14, each once
    CHECK(rows.back().at("rollbacks") == std::to_string(back.size()));
    // Examples that were left out were not seen.
    CHECK(rows.back().at("examples_seen") == std::to_string(14 * 64));
    CHECK(std::stod(rows.back().at("epoch")) == Approx(14 * 64 / 640.0));
    for (const TextRow& row : rows)
      CHECK((!row.contains("training_loss") || std::isfinite(std::stod(row.at("training_loss")))));
    // The return is no start of its own.
    const auto result = nlohmann::json::parse(read_text(whole.workdir + "/result.json"));
    CHECK(result.at("first_step") == 0);
    CHECK(result.at("total_wall_seconds") == result.at("wall_seconds"));
    CHECK(result.at("total_training_seconds") == result.at("training_seconds"));
    CHECK_FALSE(contains(finished.err, "since the restart"));

    // Killed right after the return to step `to`, before a checkpoint records it.
    const PoisonedRun killed;
    // Step 1, every third, the bad step's folder if the state is whole, and the next one.
    const int saved = static_cast<int>(to / 3) + 2 + (ranks == 1 ? 1 : 0);
    CHECK(
        killed.train(flags, {{"BVTRAIN_CRASH_AT", fmt::format("ckpt.manifest_written:{}", saved)}})
            .code != 0);
    CHECK(killed.rollbacks().size() == 1);
    const Finished again = killed.train(flags);
    INFO(again.err);
    REQUIRE(again.code == 0);
    CHECK(killed.state(shards) == whole.state(shards));
    CHECK(repeatable_rows(killed.workdir) == repeatable_rows(whole.workdir));
  }
}

TEST_CASE("a run that may not return to a checkpoint, or has none, ends as diverged") {
  const PoisonedRun f;
  const Finished ended = f.train({"--set", "nan_limit=0"});
  CHECK(ended.code == 4);
  CHECK(contains(ended.err,
                 "; the run has returned to a checkpoint 0 times, as often as nan_limit allows\n"));
  const PoisonedRun given;
  CHECK(given.train({"--set", "rollback_examples=640"}).code == 0);
  CHECK(given.rollbacks().at(0).at("examples") == 640);
  // The checkpoint knows what was left out, and that the batch size was always the same.
  const Finished longer = given.train(
      {"--set", "rollback_examples=640", "--set", "total_steps=15", "--accept-changes"});
  INFO(longer.err);
  CHECK(longer.code == 0);
  CHECK_FALSE(contains(longer.err, "had another batch size"));
  CHECK(std::stod(metric_rows(given.workdir).back().at("epoch")) == Approx(15 * 64 / 640.0));
  const PoisonedRun none;
  CHECK(contains(none.train({"--set", "ckpt_steps=null"}).err,
                 "nan: rollback needs checkpoints to return to; add ckpt_steps\n"));
  // Permanent checkpoints are enough.
  const PoisonedRun kept;
  CHECK(kept.train({"--set", "ckpt_steps=null", "--set", "keep_ckpt_steps=1"}).code == 0);
  const Finished unsaved =
      run({"--config", none.dir / "c.yaml", "--set", "input.data.fname=" + (none.dir / "d.npz")});
  CHECK(unsaved.code == 2);
  CHECK(contains(unsaved.err,
                 "nan: rollback: error: needs a --workdir for the checkpoints to "
                 "return to\n"));
}

}  // namespace bv::test
