// Checkpoints that cannot be written: at the start, in the middle, two in a row. With the real
// binary.
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/ckpt/checkpointer.h"
#include "lib/util/file.h"
#include "test/support/binary.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

const Environment kAtOnce = {{"BVTRAIN_RETRY_AFTER", "0"}};

struct FailedSavesRun {
  TempFolder dir;
  std::string workdir = dir / "w";
  FailedSavesRun() {
    write(dir / "c.yaml", R"(
num_classes: 10
total_steps: 100000
input:
  data: {name: digits, split: train}
  batch_size: 32
  pp: value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
model_name: cnn
model: {widths: [8], dense: 16}
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.001
log_training_steps: 50
ckpt_steps: 50
)");
  }
  std::vector<std::string> args(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"--config", dir / "c.yaml", "--workdir", workdir};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

}  // namespace

TEST_CASE("a checkpoint that cannot be written costs a warning, two in a row end the run") {
  const FailedSavesRun f;
  // The run sleeps at step 60. By then this test has blocked some of its later saves. It cannot do
  // so before the run starts, because a start removes what blocks them. It does so after the first
  // save: on a busy disk, that of step 50 may take longer than the run sleeps.
  Environment environment = kAtOnce;
  environment.emplace_back("BVTRAIN_SLEEP_AT", "step.rank0:60:4");
  Child child(f.args({"--set", "max_checkpoints_to_keep=1000"}), environment);
  REQUIRE(wait_for_file(f.workdir + "/ckpt/step-1"));
  for (const char* step : {"200", "300", "350", "400"})
    write(f.workdir + "/ckpt/step-" + step + ".tmp", "not a folder");
  const Finished finished = child.wait();
  INFO(finished.err);
  CHECK(finished.code == 5);
  const std::string reason = "step-350.tmp: error: cannot make the folder: Not a directory";
  CHECK(contains(finished.err, "[200] the checkpoint was not saved: " + f.workdir +
                                   "/ckpt/step-200.tmp: error: cannot make the folder: Not a "
                                   "directory; the run ends if the next one is not saved"));
  const auto result = nlohmann::json::parse(read_file(f.workdir + "/result.json"));
  CHECK(contains(result.at("reason"), reason));
  CHECK(result.at("failed_saves") >= 3);
  CHECK(result.at("failed_saves") <= 4);  // that of step 400 may be waiting when step 350's fails
  CHECK(Checkpointer::load(f.workdir).step == 250);
}

TEST_CASE("a run does not begin without room for a checkpoint") {
  const FailedSavesRun f;
  std::filesystem::create_directory(f.workdir);
  if (::geteuid() != 0 || ::mount("none", f.workdir.c_str(), "tmpfs", 0, "size=3m") != 0) {
    WARN("skipped: only root may mount");
    return;
  }
  const Finished finished = run(f.args({"--set", "model.dense=2048"}));
  INFO(finished.err);
  CHECK(finished.code == 5);
  CHECK(contains(finished.err,
                 f.workdir + ": error: needs 3.3 MiB for the next checkpoint, but only "));
  CHECK(metric_rows(f.workdir).empty());
  // With a smaller model there is room, once the rest of a killed save is deleted.
  std::filesystem::create_directories(f.workdir + "/ckpt/step-9.tmp");
  write(f.workdir + "/ckpt/step-9.tmp/state-00000-of-00001.safetensors",
        std::string(2'500'000, 'x'));
  const Finished small = run(f.args({"--set", "total_steps=2", "--set", "model.dense=256"}));
  INFO(small.err);
  CHECK(small.code == 0);
  ::umount(f.workdir.c_str());
}

}  // namespace bv::test
