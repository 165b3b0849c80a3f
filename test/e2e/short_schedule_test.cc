// The features of configs/cifar10_resnet.yaml, with the real binary: a first layer that is computed
// from the data, Muon, alternating flips, and evaluators with test-time augmentation.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "lib/ckpt/checkpointer.h"
#include "test/e2e/bad_input.h"
#include "test/support/binary.h"

namespace bv::test {
namespace {

const char* const kShortScheduleConfig = R"(
seed: 3
num_classes: 10
total_steps: 8
precision: float32
input:
  data: {name: digits, split: "train[:100]"}
  batch_size: 40
  pp: &pp flip_lr(alternate=True)|value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
model_name: resnet_cifar
model: {whitening: 60, widths: [16, 16], blocks: [0, 0], stage_convs: 2, identity_init: true}
loss: softmax_xent
optax_name: muon
lr: 0.01
schedule:
- [".*/scale|prep/bias", null]
- [".*", {decay_type: linear, warmup_steps: 2}]
log_training_steps: 2
ckpt_steps: 4
evals:
  test: &test
    type: classification
    data: {name: digits, split: "test[:60]"}
    pp_fn: value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
    loss_name: softmax_xent
    log_steps: 8
    skip_first: true
  tta: {<<: *test, tta: {mirror: true, shift: 1}}
)";

struct ShortScheduleRuns {
  TempFolder dir;
  std::string config = dir / "c.yaml";
  ShortScheduleRuns() { write(config, kShortScheduleConfig); }
  Finished train(const std::string& workdir, std::vector<std::string> more = {},
                 const Environment& environment = {}) {
    std::vector<std::string> args = {"--config", config, "--workdir", dir / workdir};
    args.insert(args.end(), more.begin(), more.end());
    return run(args, environment);
  }
  at::Tensor filters(const std::string& workdir) const {
    return Checkpointer::load(dir / workdir).tensors.at("buffers/prep/kernel").clone();
  }
};

}  // namespace

TEST_CASE("a whitening layer is computed from the data, by each process alike, and resumed") {
  ShortScheduleRuns f;
  const Finished whole = f.train("whole");
  INFO(whole.err);
  REQUIRE(whole.code == 0);
  const at::Tensor filters = f.filters("whole");
  REQUIRE(filters.sizes() == at::IntArrayRef({2, 2, 1, 8}));
  CHECK_FALSE(filters.reshape({4, 8}).narrow(1, 0, 4).equal(at::eye(4)));

  // Images that are copied as bytes are normalized before use.
  REQUIRE(f.train("bytes", {"--set", "total_steps=1"}, {{"BVTRAIN_BYTE_IMAGES", "1"}}).code == 0);
  CHECK(f.filters("bytes").equal(filters));
  REQUIRE(f.train("two", {"--set", "total_steps=1", "--devices", "cpu:2"}).code == 0);
  CHECK(f.filters("two").equal(filters));

  // Killed after the second checkpoint, that of step 4.
  REQUIRE(f.train("cut", {}, {{"BVTRAIN_CRASH_AT", "ckpt.last_replaced:2"}}).code == 137);
  const Finished resumed = f.train("cut");
  INFO(resumed.err);
  REQUIRE(resumed.code == 0);
  const Restored a = Checkpointer::load(f.dir / "whole"), b = Checkpointer::load(f.dir / "cut");
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (const auto& [name, value] : a.tensors) {
    INFO(name);
    CHECK(value.equal(b.tensors.at(name)));
  }
  CHECK(repeatable_rows(f.dir / "whole") == repeatable_rows(f.dir / "cut"));
}

TEST_CASE("muon warns of a pattern without a kernel, and is refused where it has nothing to do") {
  ShortScheduleRuns f;
  const auto dry_run = [&](const std::string& patterns) {
    return run({"--config", f.config, "--dry-run", "--set", "optax={adam_for: " + patterns + "}"});
  };
  const Finished warned = dry_run("[haed/kernel]");
  INFO(warned.err);
  CHECK(warned.code == 0);
  CHECK(warned.err.find("optax.adam_for: the pattern 'haed/kernel' matches no kernel\n") !=
        std::string::npos);
  const Finished refused = dry_run("['.*']");
  CHECK(refused.code == 2);
  CHECK(refused.err ==
        "error: optax_name: muon has nothing to do: no kernels are trained except those of "
        "optax.adam_for; use 'optax_name: scale_by_adam'\n");
}

TEST_CASE("tta changes what an evaluator measures, and is refused where it cannot work") {
  ShortScheduleRuns f;
  REQUIRE(f.train("out").code == 0);
  const auto last = metric_rows(f.dir / "out").back();
  CHECK(last.at("test/loss") != last.at("tta/loss"));
  // The job evaluates as the run does.
  const Finished job = run({"eval", "--workdir", f.dir / "out", "--config", f.config});
  INFO(job.err);
  REQUIRE(job.code == 0);
  CHECK(job.err.find(fmt::format("tta/loss={:.4g}", std::stod(last.at("tta/loss")))) !=
        std::string::npos);

  const auto refusal = [&](const std::string& from, const std::string& to) {
    write(f.config, replaced(kShortScheduleConfig, from, to));
    const Finished finished = run({"--config", f.config, "--dry-run"});
    CHECK(finished.code == 2);
    return replaced(finished.err, f.config, "c.yaml");
  };
  CHECK(refusal("shift: 1", "shift: 8") ==
        "c.yaml:28:8: error: evals.tta: tta.shift of 8 pixels is too much for images of 8x8\n");
  CHECK(refusal("tta: {<<: *test, tta: {mirror: true, shift: 1}}",
                "knn: {train: {name: digits, split: train}, data: {name: digits, split: test}, "
                "pp_fn: 'value_range(-1, 1)|keep(\"image\", \"label\")', k: [1], "
                "representation_layer: pre_logits, tta: {mirror: true}}") ==
        "c.yaml:28:8: error: evals.knn: tta averages the model's outputs, but this evaluator uses "
        "the activation 'pre_logits'; remove tta\n");
}

}  // namespace bv::test
