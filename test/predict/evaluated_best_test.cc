// The best checkpoint of bvtrain eval, on a disk that fails for a while.
#include "lib/predict/evaluated_best.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "lib/ckpt/checkpointer.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/logged.h"
#include "test/support/text.h"
#include "test/support/variable.h"

namespace bv::test {
namespace {

namespace fs = std::filesystem;

// A run with the checkpoint of step 5, whose evaluation keeps the lowest test/loss.
struct KeptBest {
  const TempFolder folder;
  const Workdir run{folder.path()};
  const std::string best = run.ckpt().best("");
  const std::string state = "/" + shard_name(0, 1);
  const std::string held = run.evaluation() + "/.held" + state;
  const std::string away = folder / "away";
  const EvaluatedCheckpoints done{folder / "evaluated.json", {}};
  std::string identity;
  std::optional<EvaluatedBest> evaluated;

  KeptBest() {
    Checkpointer checkpointer(run);
    Snapshot snapshot;
    snapshot.step = 5;
    snapshot.tensors["params/bias"] = at::full({10}, 1.0, at::kFloat);
    snapshot.meta = {{"config", "lr: 0.1"}};
    checkpointer.save(std::move(snapshot), true);
    checkpointer.wait();
    identity = EvaluatedCheckpoints::identity(run.ckpt().step(5)).value();
    BestSeries series;
    series.watched = {.metric = "test/loss", .higher_is_better = false, .evaluators = {"test"}};
    evaluated.emplace(run, std::vector<BestSeries>{series}, folder / "metrics.jsonl", done);
  }
  void take(int64_t step, double loss) {
    evaluated->take(step, identity, {{"test/loss", loss}, {kEvalSeconds + "test", 1.0}});
  }
};

}  // namespace

TEST_CASE("bvtrain eval writes the best checkpoint when the disk works again") {
  const Variable wait("BVTRAIN_RETRY_AFTER", "0.5");
  KeptBest f;
  f.evaluated->hold(5);
  fs::rename(f.held, f.away);
  std::thread disk([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    fs::rename(f.away, f.held);
  });
  const std::string log = logged([&] { f.take(5, 0.5); });
  disk.join();
  CHECK(contains(log, "cannot write: "));
  CHECK(contains(log, "; trying again in 0.5 s"));
  REQUIRE(read_best(f.best));
  CHECK(read_best(f.best)->step == 5);
}

TEST_CASE("bvtrain eval ends before it writes a row whose best checkpoint it cannot write") {
  const Variable wait("BVTRAIN_RETRY_AFTER", "0");
  KeptBest f;
  f.evaluated->hold(5);
  fs::rename(f.held, f.away);
  CHECK(contains(error_of([&] { f.take(5, 0.5); }, Exit::storage), "cannot write: "));
  CHECK_FALSE(read_best(f.best));
}

TEST_CASE("bvtrain eval holds a checkpoint later if the disk fails at first") {
  const Variable wait("BVTRAIN_RETRY_AFTER", "0");
  KeptBest f;
  const std::string state = f.run.ckpt().step(5) + f.state;
  fs::rename(state, f.away);
  const std::string log = logged([&] { f.evaluated->hold(5); });
  CHECK(contains(log, "; trying again in 0 s"));
  CHECK(contains(log, "; if it is the best checkpoint, this is tried again after its evaluation"));
  fs::rename(f.away, state);
  f.take(5, 0.5);
  REQUIRE(read_best(f.best));
  // One that the run has deleted is not waited for, and its row is written.
  const std::string gone = logged([&] {
    f.evaluated->hold(10);
    f.take(10, 0.4);
  });
  CHECK_FALSE(contains(gone, "trying again"));
  CHECK(contains(gone, "/step-10: error: no longer exists; it cannot become the best checkpoint"));
  CHECK(contains(gone, f.best + " stays as it is, although step 10 has the best test/loss so far"));
  CHECK(read_best(f.best)->step == 5);
}

}  // namespace bv::test
