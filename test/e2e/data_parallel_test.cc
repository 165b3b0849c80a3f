// Several processes compute what one process computes: the same steps, rows and evaluations. A
// signal or the death of a rank does not affect the results. With the real binary.
#include <ATen/ATen.h>
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/formats/npz.h"
#include "test/support/binary.h"
#include "test/support/digits_run.h"

namespace bv::test {
namespace {

// Everything that could depend on which rank computes an example: shuffling, augmentation, mixup,
// dropout, evaluators of all kinds over 50 examples in batches of 16.
const char* const kDataParallelConfig = R"(
seed: 3
num_classes: 10
total_steps: 50
precision: float32
input:
  data: {name: digits, split: train}
  batch_size: 32
  pp: random_affine(shift=0.1, rotate=10)|value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
model_name: cnn
model: {widths: [16, 16], dense: 32, dropout: 0.2}
loss: softmax_xent
mixup: {p: 0.3}
optax_name: scale_by_adam
lr: 0.003
grad_clip_norm: 1.0
ema: {decay: 0.9}
bucket_mb: 0.01
log_training_steps: 1
ckpt_steps: 20
evals:
  test:
    type: classification
    data: {name: digits, split: "test[:50]"}
    pp_fn: &pp value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
    loss_name: softmax_xent
    batch_size: 16
    log_steps: 25
  averaged:
    type: classification
    data: {name: digits, split: "test[:50]"}
    pp_fn: *pp
    loss_name: softmax_xent
    batch_size: 16
    log_steps: 25
    ema: true
  mean:
    data: {name: digits, split: "test[:50]"}
    pp_fn: *pp
    pred: loss
    batch_size: 16
  # 360 examples are two of the blocks, and there are three numbers of shots, that the ranks share.
  knn: {train: {name: digits, split: "train[:100]"}, data: {name: digits, split: test},
        pp_fn: &label 'value_range(-1, 1)|keep("image", "label")', k: 5,
        representation_layer: pre_logits, batch_size: 16, log_steps: 25}
  fewshot: {type: fewshot_lsr, datasets: {d: [digits, "train[:200]", "test[:50]"]},
            pp_train: *label, pp_eval: *label, shots: [1, 2, 5], num_seeds: 2,
            representation_layer: pre_logits, batch_size: 16, log_steps: 25}
  calibration: {data: {name: digits, split: "test[:50]"}, pp_fn: *pp, batch_size: 16, log_steps: 25}
  save: {data: {name: digits, split: "test[:50]"}, pp_fn: *pp, batch_size: 16, outputs: [logits],
         inputs: [labels, _id], log_steps: 25, skip_first: true, outfile: "{workdir}/logits.npz"}
)";

struct DataParallelRuns {
  TempFolder dir;
  std::string config = dir / "c.yaml";
  DataParallelRuns() { write(config, kDataParallelConfig); }
  std::vector<std::string> args(const std::string& workdir, int ranks,
                                const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"--config",    config,      "--workdir",
                                    dir / workdir, "--devices", "cpu:" + std::to_string(ranks)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Finished train(const std::string& workdir, int ranks, const std::vector<std::string>& more = {}) {
    Finished finished = run(args(workdir, ranks, more));
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    return finished;
  }
};

// Checks that all numbers of the rows are equal within a relative `tolerance`.
void check_close(const std::vector<TextRow>& a, const std::vector<TextRow>& b, double tolerance) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    REQUIRE(a[i].size() == b[i].size());
    for (const auto& [name, text] : a[i]) {
      INFO("row " << i << " " << name);
      REQUIRE(b[i].count(name) == 1);
      const double x = std::stod(text), y = std::stod(b[i].at(name));
      CHECK(std::abs(x - y) <= tolerance * std::max(1.0, std::abs(x)));
    }
  }
}

void check_same_state(const std::string& a, const std::string& b) {
  const Restored one = Checkpointer::load(a), two = Checkpointer::load(b);
  REQUIRE(one.tensors.size() == two.tensors.size());
  for (const auto& [name, value] : one.tensors) {
    INFO(name);
    CHECK(value.equal(two.tensors.at(name)));
  }
}

}  // namespace

// A loss is a mean of B = 32 float32 values that are not negative. Sums of such values in two
// orders differ by at most 2 (B - 1) u of the sum, where u = 2^-24 is the unit roundoff (Higham,
// Accuracy and Stability of Numerical Algorithms, section 4.2). The test puts this bound on every
// number of every row, although the weights accumulate the differences of all earlier steps. The
// largest observed difference is 2e-7, with 2, 4 and 8 processes.
TEST_CASE("one, two, four and eight processes: the same 50 steps, rows and evaluations") {
  constexpr double kBound = 2 * (32 - 1) * 0x1p-24;  // 3.7e-6
  DataParallelRuns f;
  f.train("one", 1);
  const auto one = repeatable_rows(f.dir / "one");
  REQUIRE(one.size() == 51);
  for (size_t step = 1; step < one.size(); ++step) CHECK(one[step].count("training_loss") == 1);
  const NamedTensors saved = read_npz(f.dir / "one/logits.npz");
  for (const int ranks : {2, 4, 8}) {
    const std::string name = "r" + std::to_string(ranks);
    const Finished finished = f.train(name, ranks);
    INFO(ranks << " processes");
    const auto rows = repeatable_rows(f.dir / name);
    check_close(one, rows, kBound);
    CHECK(finished.err.find("mixup: pairs examples over the whole batch") != std::string::npos);
    const std::string log = read_text(f.dir / name + "/log/rank-1.log");
    CHECK(log.find("Hello from process 1") != std::string::npos);
    CHECK(log.find("training_loss = ") == std::string::npos);  // in the log of rank 0
    const NamedTensors theirs = read_npz(f.dir / name + "/logits.npz");
    CHECK(theirs.at("inputs/_id").equal(saved.at("inputs/_id")));
    CHECK(theirs.at("inputs/labels").equal(saved.at("inputs/labels")));
    CHECK(at::allclose(theirs.at("outputs/logits"), saved.at("outputs/logits"), 1e-4, 1e-4));
    // Two runs with the same number of processes are bit-identical.
    f.train(name + "b", ranks);
    CHECK(rows == repeatable_rows(f.dir / name + "b"));
    check_same_state(f.dir / name, f.dir / name + "b");
  }
}

TEST_CASE("an interrupted run of two processes ends with the same bits") {
  DataParallelRuns f;
  f.train("whole", 2);
  // From step 21 on each step takes a second, so that the signal comes long before the last step.
  Child child(f.args("stopped", 2), {{"BVTRAIN_SLEEP_AT", "step.rank0:21+:1"}});
  REQUIRE(wait_for_file(f.dir / "stopped/ckpt/step-20/manifest.json"));
  child.kill(SIGTERM);
  const Finished stopped = child.wait();
  INFO(stopped.err);
  CHECK(stopped.code == 143);
  CHECK(stopped.err.find("the checkpoint is committed. Run the same command again") !=
        std::string::npos);
  CHECK(Checkpointer::load(f.dir / "stopped").step < 50);
  f.train("stopped", 2);
  CHECK(repeatable_rows(f.dir / "whole") == repeatable_rows(f.dir / "stopped"));
  check_same_state(f.dir / "whole", f.dir / "stopped");
}

TEST_CASE(
    "a killed rank ends the run with a line that names it; with --max-restarts the run continues") {
  DataParallelRuns f;
  f.train("whole", 2);
  for (const bool restarts : {false, true}) {
    const std::string name = restarts ? "restarted" : "killed";
    auto args = f.args(name, 2);
    if (restarts) args.insert(args.end(), {"--max-restarts", "1"});
    Child child(args, {{"BVTRAIN_CRASH_AT", "step.rank1:31"}});
    const Finished finished = child.wait();
    INFO(finished.err);
    CHECK(finished.err.find("rank 1 (") != std::string::npos);
    CHECK(finished.err.find("was killed by signal 9 (SIGKILL)") != std::string::npos);
    CHECK(finished.code == (restarts ? 0 : 137));
    if (!restarts) f.train(name, 2);
    CHECK(repeatable_rows(f.dir / "whole") == repeatable_rows(f.dir / name));
    check_same_state(f.dir / "whole", f.dir / name);
  }
}

TEST_CASE("a batch size that the ranks do not divide is refused once, with both numbers") {
  DataParallelRuns f;
  // All ranks find the error, at slightly different times, but it is printed once.
  for (int i = 0; i < 5; ++i) {
    const Finished eight = run(f.args("out", 8, {"--set", "evals.test.batch_size=500"}));
    CHECK(eight.code == 2);
    CHECK(eight.err.substr(eight.err.find('\n') + 1) ==
          "--set evals.test.batch_size=500: error: evals.test.batch_size: Batch size (500) must be "
          "divisible by device number (8)\n");
  }
  const Finished finished = run(f.args("out", 3, {"--set", "evals=null"}));
  CHECK(finished.code == 2);
  CHECK(finished.err.find("c.yaml:8:15: error: input.batch_size: Batch size (32) must be divisible "
                          "by device number (3)") != std::string::npos);
  CHECK(finished.err.find("must be divisible") == finished.err.rfind("must be divisible"));
  CHECK_FALSE(exists(f.dir / "out"));
}

TEST_CASE("batch norm's statistics are those of the whole batch") {
  // bvtrain's kernels do not support 12 channels. One process then uses LibTorch's, which sum in
  // float32.
  for (const std::string width : {"16", "12"}) {
    INFO("width " << width);
    DataParallelRuns f;
    write(f.config, R"(
num_classes: 10
total_steps: 3
precision: float32
input: {data: {name: synthetic, size: 64, image_size: 16, classes: 10, encoded: none}, batch_size: 16,
        pp: 'value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")'}
model_name: resnet_cifar
model: {norm: batch, width: )" +
                        width + R"(}
optax_name: scale_by_adam
lr: 0.001
log_training_steps: 1
)");
    f.train("one", 1);
    f.train("two", 2);
    check_close(repeatable_rows(f.dir / "one"), repeatable_rows(f.dir / "two"),
                width == "16" ? 1e-5 : 1e-4);
    const Restored one = Checkpointer::load(f.dir / "one"), two = Checkpointer::load(f.dir / "two");
    int buffers = 0;
    for (const auto& [name, value] : one.tensors) {
      if (!name.starts_with("buffers/")) continue;
      INFO(name);
      ++buffers;
      // Compares whole tensors: a mean close to 0 is a difference of large numbers, with large
      // rounding errors.
      const at::Tensor difference = value - two.tensors.at(name);
      CHECK(difference.norm().item<double>() < 1e-4 * value.norm().item<double>() + 1e-6);
    }
    CHECK(buffers > 4);
  }
}

TEST_CASE("a frozen batch norm keeps its running statistics, whatever computes the batch") {
  DataParallelRuns f;
  write(f.config, R"(
num_classes: 10
total_steps: 3
precision: float32
input: {data: {name: synthetic, size: 64, image_size: 16, classes: 10, encoded: none}, batch_size: 16,
        pp: 'value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")'}
model_name: resnet_cifar
model: {norm: batch, width: 16}
schedule: [["head/.*", {}], [".*", null]]
optax_name: scale_by_adam
lr: 0.001
log_training_steps: 1
)");
  f.train("one", 1);
  f.train("two", 2);
  const Finished parts = run(f.args("parts", 1, {"--set", "grad_accum_steps=4"}));
  INFO(parts.err);
  REQUIRE(parts.code == 0);
  CHECK(parts.err.find("batch norm takes its statistics") == std::string::npos);
  for (const std::string name : {"one", "two", "parts"}) {
    INFO(name);
    check_close(repeatable_rows(f.dir / "one"), repeatable_rows(f.dir / name), 1e-5);
    int buffers = 0;
    for (const auto& [path, value] : Checkpointer::load(f.dir / name).tensors) {
      if (!path.starts_with("buffers/")) continue;
      INFO(path);
      ++buffers;
      CHECK(value.eq(path.ends_with("/var") ? 1 : 0).all().item<bool>());
    }
    CHECK(buffers > 4);
  }
}

TEST_CASE("two processes evaluate a data set without a mistake") {
  // The mistakes of all ranks are gathered for the report: none at all must not be an error.
  const DigitsRun run(
      digits_config("lr: 0.01\nevals:\n" + digits_evaluator("few", {"log_steps: 75"}, "test[:2]")));
  const Finished finished =
      run.train({"--devices", "cpu:2", "--set", "total_steps=150", "--set", "ckpt_steps=150"});
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  CHECK(metric_rows(run.workdir).back().at("few/prec@1") == "1");
}

}  // namespace bv::test
