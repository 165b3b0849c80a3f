// nan: skip, with the real binary: the run tells of each step that it skips, counts them over
// restarts, and ends when there are too many.
#include <catch2/catch.hpp>

#include "test/support/binary.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

// A learning rate that overflows after a few steps: from then on every step is bad.
std::vector<std::string> diverging(const std::string& workdir,
                                   const std::vector<std::string>& values) {
  std::vector<std::string> args = {"--config", source_file("configs/digits_cnn.yaml"), "--workdir",
                                   workdir};
  std::vector<std::string> all = {"total_epochs=null", "total_steps=12", "log_training_steps=1",
                                  "schedule=null",     "optax_name=sgd", "optax=null",
                                  "lr=1e12",           "ckpt_steps=2",   "nan=skip"};
  all.insert(all.end(), values.begin(), values.end());
  for (const std::string& value : all) args.insert(args.end(), {"--set", value});
  return args;
}

}  // namespace

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

}  // namespace bv::test
