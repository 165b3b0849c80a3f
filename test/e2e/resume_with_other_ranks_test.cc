// A run that resumes with another number of processes keeps its core hours, but not its number of
// compute threads.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "lib/ckpt/checkpointer.h"
#include "lib/util/file.h"
#include "lib/util/host.h"
#include "test/support/binary.h"

namespace bv::test {
namespace {

constexpr int kBatch = 16;
const char* const kOtherRanksConfig = R"(
num_classes: 10
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
log_training_steps: 1
)";

struct OtherRanksRun {
  TempFolder dir;
  OtherRanksRun() { write(dir / "c.yaml", kOtherRanksConfig); }
  // By default each process has one compute thread.
  Finished train(int ranks, int steps, const std::vector<std::string>& sets = {}) const {
    std::vector<std::string> args = {"--config",        dir / "c.yaml",
                                     "--workdir",       dir / "w",
                                     "--devices",       fmt::format("cpu:{}", ranks),
                                     "--set",           fmt::format("total_steps={}", steps),
                                     "--accept-changes"};
    for (const std::string& set : sets) args.insert(args.end(), {"--set", set});
    Finished finished = run(args, {{"OMP_NUM_THREADS", "1"}});
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    return finished;
  }
  int compute_threads() const {
    return nlohmann::json::parse(read_file(dir / "w/run.json")).at("compute_threads");
  }
};

}  // namespace

TEST_CASE("core hours count all processes, those before the restart included") {
  const OtherRanksRun f;
  const auto seconds = [&](const char* name) -> double {
    return Checkpointer::load(f.dir / "w").meta.at("chrono").at(name);
  };
  f.train(2, 6);
  const double train = seconds("accum_train_time"), device = seconds("accum_device_time");
  CHECK(train > 0);
  CHECK(device == Approx(2 * train));
  auto rows = metric_rows(f.dir / "w");
  REQUIRE(rows.size() == 7);
  const auto value = [&](size_t row, const char* name) { return std::stod(rows[row].at(name)); };
  CHECK(value(6, "core_hours") == Approx(device / 3600));
  // The images of a step are divided by the time of both processes.
  for (size_t step = 4; step <= 6; ++step) {
    const double core_seconds = 3600 * (value(step, "core_hours") - value(step - 1, "core_hours"));
    CHECK(value(step, "img/sec/core") == Approx(kBatch / core_seconds).epsilon(1e-6));
  }
  f.train(1, 12);
  CHECK(seconds("accum_device_time") - device == Approx(seconds("accum_train_time") - train));
  rows = metric_rows(f.dir / "w");
  REQUIRE(rows.size() == 13);
  CHECK(value(12, "core_hours") == Approx(seconds("accum_device_time") / 3600));
}

TEST_CASE(
    "a run with the same number of processes keeps its compute threads, unless the config sets "
    "them") {
  const OtherRanksRun f;
  f.train(1, 1, {"compute_threads=2"});
  CHECK(f.compute_threads() == 2);
  const Finished again = f.train(1, 2);
  if (available_cores() >= 2) {
    CHECK(again.err.find("Computing with 2 threads, not 1, so that the run continues bitwise "
                         "exactly") != std::string::npos);
    CHECK(f.compute_threads() == 2);
  }
  CHECK(f.train(1, 3, {"compute_threads=3"})
            .err.find("Computing with 3 threads, as configured; this run was started with ") !=
        std::string::npos);
  CHECK(f.compute_threads() == 3);
  f.train(2, 4);
  CHECK(f.compute_threads() == 1);
  // A machine with fewer cores.
  const std::string more = std::to_string(available_cores() + 1);
  const OtherRanksRun moved;
  moved.train(1, 1, {"compute_threads=" + more});
  CHECK(moved.train(1, 2).err.find("this run was started with " + more + " threads, but") !=
        std::string::npos);
  CHECK(moved.compute_threads() == 1);
  f.train(2, 5, {"compute_threads=2"});
  CHECK(f.compute_threads() == 2);
  f.train(2, 6);
  CHECK(f.compute_threads() == (available_cores() >= 4 ? 2 : 1));  // each may use half of them
}

}  // namespace bv::test
