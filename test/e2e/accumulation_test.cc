// grad_accum_steps with the real binary: the whole batch's results in the memory of a part of it,
// and elastic restarts, which use it to keep the global batch.
#include <catch2/catch.hpp>
#include <cmath>

#include "test/e2e/bad_input.h"
#include "test/support/binary.h"
#include "test/support/limits.h"

namespace bv::test {
namespace {

const char* const kAccumulationConfig = R"(
seed: 3
num_classes: 10
total_steps: 20
precision: float32
input:
  data: {name: digits, split: train}
  batch_size: 32
  pp: random_affine(shift=0.1, rotate=10)|value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
model_name: vit
model: {width: 32, depth: 2, num_heads: 2, mlp_dim: 64, patch_size: [4, 4], dropout: 0.1}
loss: softmax_xent
mixup: {p: 0.3}
optax_name: scale_by_adam
lr: 0.003
grad_clip_norm: 1.0
bucket_mb: 0.01
log_training_steps: 1
ckpt_steps: 6
)";

const char* const kFsdpOption =
    "sharding_strategy=[['.*', 'fsdp(axis=\"data\", min_size_to_shard_mb=0.002)']]";

struct AccumulationRuns {
  TempFolder dir;
  AccumulationRuns() { write(dir / "c.yaml", kAccumulationConfig); }
  Finished train(const std::string& workdir, const std::string& devices,
                 const std::vector<std::string>& more = {}, const Environment& environment = {}) {
    std::vector<std::string> args = {"--config",    dir / "c.yaml", "--workdir",
                                     dir / workdir, "--devices",    devices};
    args.insert(args.end(), more.begin(), more.end());
    Finished finished = run(args, environment);
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    return finished;
  }
  std::vector<TextRow> rows(const std::string& workdir) const {
    return repeatable_rows(dir / workdir);
  }
};

void check_accumulated_rows(const std::vector<TextRow>& a, const std::vector<TextRow>& b) {
  constexpr double kBound = 2 * (32 - 1) * 0x1p-24;  // as in data_parallel_test.cc
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    REQUIRE(a[i].size() == b[i].size());
    for (const auto& [name, text] : a[i]) {
      INFO("row " << i << " " << name);
      REQUIRE(b[i].count(name) == 1);
      const double x = std::stod(text), y = std::stod(b[i].at(name));
      CHECK(std::abs(x - y) <= kBound * std::max(1.0, std::abs(x)));
    }
  }
}

}  // namespace

TEST_CASE(
    "a batch in micro-batches gives the same numbers on one process and on several, sharded or "
    "not") {
  AccumulationRuns f;
  f.train("whole", "cpu");
  const auto whole = f.rows("whole");
  REQUIRE(whole.size() == 21);
  struct Case {
    std::string devices, parts, sharding, said;
  };
  for (const Case& c :
       {Case{"cpu", "4", "replicate", "its 32 examples of a step in 4 micro-batches of 8\n"},
        {"cpu:2", "8", "zero1", "its 16 examples of a step in 8 micro-batches of 2\n"},
        {"cpu:2", "4", "replicate", "its 16 examples of a step in 4 micro-batches of 4\n"},
        {"cpu:2", "2", "zero2", "its 16 examples of a step in 2 micro-batches of 8\n"},
        {"cpu:4", "8", std::string(kFsdpOption).substr(18),
         "its 8 examples of a step in 8 micro-batches of 1\n"}}) {
    INFO(c.devices << " " << c.parts << " " << c.sharding);
    const std::vector<std::string> sets = {"--set", "grad_accum_steps=" + c.parts, "--set",
                                           "sharding_strategy=" + c.sharding};
    const std::string name = "w" + c.devices + c.parts;
    const Finished finished = f.train(name, c.devices, sets);
    CHECK(finished.err.find("Each process computes " + c.said) != std::string::npos);
    check_accumulated_rows(whole, f.rows(name));
  }
}

TEST_CASE("an elastic restart keeps the global batch by computing it in micro-batches") {
  AccumulationRuns f;
  f.train("whole", "cpu");
  for (const char* strategy : {"sharding_strategy=replicate", kFsdpOption}) {
    const std::string name = std::string(strategy) == kFsdpOption ? "fsdp" : "replicate";
    const Finished finished =
        f.train(name, "cpu:4", {"--max-restarts", "1", "--elastic", "1:4", "--set", strategy},
                {{"BVTRAIN_CRASH_AT", "step.rank1:16"}});
    CHECK(finished.err.find("starting again, 1 of 1, with 2 ranks here") != std::string::npos);
    CHECK(finished.err.find(
              "Each process computes its 16 examples of a step in 2 micro-batches of 8: "
              "the run began with 4 processes\n") != std::string::npos);
    check_accumulated_rows(f.rows("whole"), f.rows(name));
  }
}

TEST_CASE("with batch norm an elastic restart keeps the statistics, and prints what that costs") {
  AccumulationRuns f;
  std::string config = replaced(kAccumulationConfig, "model_name: vit", "model_name: resnet_cifar");
  config = replaced(
      config, "width: 32, depth: 2, num_heads: 2, mlp_dim: 64, patch_size: [4, 4], dropout: 0.1",
      "norm: batch, width: 4");
  write(f.dir / "c.yaml", config);
  f.train("whole", "cpu:2");
  const Finished finished = f.train("w", "cpu:2", {"--max-restarts", "1", "--elastic", "1:2"},
                                    {{"BVTRAIN_CRASH_AT", "step.rank1:16"}});
  CHECK(finished.err.find("each process computes 32 examples at once, not 16 as with 2 processes, "
                          "to keep the statistics of batch norm") != std::string::npos);
  CHECK(finished.err.find(" micro-batches of ") == std::string::npos);
  // With statistics of half the batch the losses differ by a few percent.
  const auto whole = f.rows("whole"), rows = f.rows("w");
  REQUIRE(whole.size() == rows.size());
  for (size_t i = 1; i < rows.size(); ++i) {
    INFO("row " << i);
    CHECK(std::stod(rows[i].at("training_loss")) ==
          Approx(std::stod(whole[i].at("training_loss"))).epsilon(1e-3));
  }
}

TEST_CASE("grad_accum_steps is not blamed for a batch size that is missing") {
  AccumulationRuns f;
  write(f.dir / "c.yaml", replaced(kAccumulationConfig, "batch_size: 32", "batch_sise: 32"));
  const Finished finished =
      run({"--config", f.dir / "c.yaml", "--set", "grad_accum_steps=4", "--workdir", f.dir / "w"});
  CHECK(finished.code == 2);
  CHECK(finished.err.find("batch_size") != std::string::npos);
  CHECK(finished.err.find("grad_accum_steps") == std::string::npos);
}

TEST_CASE("a batch in micro-batches needs the memory of a micro-batch") {
  AccumulationRuns f;
  std::string config = replaced(kAccumulationConfig, "total_steps: 20", "total_steps: 3");
  config = replaced(config, "batch_size: 32", "batch_size: 1024");
  config = replaced(config, "width: 32, depth: 2", "width: 64, depth: 4");
  config = replaced(config, "patch_size: [4, 4]", "patch_size: [1, 1]");
  write(f.dir / "c.yaml", config);
  const auto resident = [&](const std::string& parts) {
    f.train("m" + parts, "cpu", {"--set", "grad_accum_steps=" + parts});
    return std::stod(metric_rows(f.dir / ("m" + parts)).back().at("y/hostmem/rss"));
  };
  const double whole = resident("1"), parts = resident("16");
  INFO(whole / 1e6 << " MB as a whole, " << parts / 1e6 << " MB in 16 parts");
  if (!kSanitized) CHECK(parts < 0.5 * whole);
}

}  // namespace bv::test
