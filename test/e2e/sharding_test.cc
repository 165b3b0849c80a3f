// Sharded runs with the real binary: their rows equal those of replicated runs, any strategy and
// world size can read their checkpoints, resuming is bit-identical, and a kill at any point leaves
// an intact checkpoint.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/formats/npz.h"
#include "lib/util/file.h"
#include "test/support/binary.h"

namespace bv::test {
namespace {

namespace fs = std::filesystem;

const char* const kShardedConfig = R"(
seed: 3
num_classes: 10
total_steps: 6
precision: float32
input:
  data: {name: digits, split: train}
  batch_size: 16
  pp: value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
model_name: vit
model: {width: 32, depth: 2, num_heads: 2, mlp_dim: 64, patch_size: [4, 4], dropout: 0.1}
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.003
wd: 0.01
grad_clip_norm: 1.0
ema: {decay: 0.9}
log_training_steps: 1
ckpt_steps: 3
keep_ckpt_steps: 3
evals:
  test:
    type: classification
    data: {name: digits, split: "test[:50]"}
    pp_fn: &pp value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
    loss_name: softmax_xent
    batch_size: 16
    log_steps: 3
  averaged:
    type: classification
    data: {name: digits, split: "test[:50]"}
    pp_fn: *pp
    loss_name: softmax_xent
    batch_size: 16
    log_steps: 3
    ema: true
)";

const std::string kFsdp =
    "sharding_strategy=[['.*', 'fsdp(axis=\"data\", min_size_to_shard_mb=0.002)']]";
const std::string kReplicate = "sharding_strategy=replicate";

struct ShardedRuns {
  TempFolder dir;
  std::string config = dir / "c.yaml";
  ShardedRuns() { write(config, kShardedConfig); }
  std::vector<std::string> args(const std::string& workdir, int ranks, const std::string& strategy,
                                const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"--config",    config,      "--workdir",
                                    dir / workdir, "--devices", "cpu:" + std::to_string(ranks),
                                    "--set",       strategy,    "--accept-changes"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Finished train(const std::string& workdir, int ranks, const std::string& strategy,
                 const std::vector<std::string>& more = {}) const {
    Finished finished = run(args(workdir, ranks, strategy, more));
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    return finished;
  }
  // Starts a new workdir from step 3 of another one.
  void resume(const std::string& workdir, const std::string& from, int ranks,
              const std::string& strategy) const {
    train(workdir, ranks, strategy, {"--set", "resume=" + (dir / from) + "/ckpt/step-3"});
  }
};

// Sums over ranks and parts have another order, which changes a loss by about 1e-7 per step.
void check_sharded_rows(const std::vector<TextRow>& a, const std::vector<TextRow>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    REQUIRE(a[i].size() == b[i].size());
    for (const auto& [name, text] : a[i]) {
      INFO("row " << i << " " << name);
      REQUIRE(b[i].count(name) == 1);
      const double x = std::stod(text), y = std::stod(b[i].at(name));
      CHECK(std::abs(x - y) <= 1e-4 * std::max(1.0, std::abs(x)));
    }
  }
}

// Returns the rows of steps 4 to 6, which a run from step 3 has too.
std::vector<TextRow> last_rows(const std::string& workdir) {
  std::vector<TextRow> rows;
  for (const TextRow& row : repeatable_rows(workdir)) {
    if (std::stoi(row.at("step")) > 3) rows.push_back(row);
  }
  REQUIRE(rows.size() == 3);
  return rows;
}

void check_state(const std::string& a, const std::string& b, bool exact) {
  const Restored one = Checkpointer::load(a), two = Checkpointer::load(b);
  REQUIRE(one.tensors.size() == two.tensors.size());
  for (const auto& [name, value] : one.tensors) {
    if (name.find("key/bias") != std::string::npos)
      continue;  // its gradient is only rounding noise
    INFO(name);
    const at::Tensor& other = two.tensors.at(name);
    REQUIRE(value.sizes() == other.sizes());
    CHECK((exact ? value.equal(other) : at::allclose(value, other, 1e-3, 1e-4)));
  }
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE(
    "a sharded run has the rows of a replicated one, and any strategy reads its checkpoints") {
  const ShardedRuns f;
  f.train("whole", 4, kReplicate);
  CHECK(files_in(f.dir / "whole/ckpt/step-3") ==
        std::vector<std::string>{"manifest.json", "state-00000-of-00001.safetensors"});
  for (const char* strategy : {"sharding_strategy=zero1", "sharding_strategy=zero2"}) {
    const std::string name = std::string(strategy).substr(18);
    f.train(name, 4, strategy);
    check_sharded_rows(repeatable_rows(f.dir / "whole"), repeatable_rows(f.dir / name));
    check_state(f.dir / "whole", f.dir / name, /*exact=*/false);
  }
  f.train("fsdp", 4, kFsdp);
  check_sharded_rows(repeatable_rows(f.dir / "whole"), repeatable_rows(f.dir / "fsdp"));
  check_state(f.dir / "whole", f.dir / "fsdp", /*exact=*/false);
  CHECK(files_in(f.dir / "fsdp/ckpt") == std::vector<std::string>{"LAST", "step-3", "step-6"});
  CHECK(files_in(f.dir / "fsdp/ckpt/step-3").size() == 5);

  const std::vector<TextRow> rows = last_rows(f.dir / "whole");
  const auto check = [&](const std::string& name) {
    check_sharded_rows(rows, last_rows(f.dir / name));
  };
  f.resume("fsdp4-1", "fsdp", 1, kReplicate);
  check("fsdp4-1");
  f.resume("fsdp4-2", "fsdp", 2, kFsdp);
  check("fsdp4-2");
  f.resume("fsdp2-8", "fsdp4-2/../fsdp", 8, kFsdp);
  check("fsdp2-8");
  f.resume("fsdp-replicate", "fsdp", 2, kReplicate);
  check("fsdp-replicate");
  f.resume("whole-fsdp", "whole", 2, kFsdp);
  check("whole-fsdp");
  f.resume("zero-fsdp", "zero2", 4, kFsdp);
  check("zero-fsdp");
}

TEST_CASE("a sharded run resumes with the same bits") {
  const ShardedRuns f;
  f.train("whole", 4, kFsdp);
  f.train("parts", 4, kFsdp, {"--set", "total_steps=3"});
  f.train("parts", 4, kFsdp);
  CHECK(last_rows(f.dir / "whole") == last_rows(f.dir / "parts"));
  check_state(f.dir / "whole", f.dir / "parts", /*exact=*/true);
}

TEST_CASE("a kill -9 during a sharded save leaves a whole checkpoint") {
  const ShardedRuns f;
  f.train("whole", 4, kFsdp);
  // At the save of step 6, after those of steps 1 and 3: first the writers of ranks above 0 die
  // before they report that they are done, then the writers of all ranks. On a slow machine rank 0
  // has not committed step 3 by then. Last, rank 0 dies when it renames step 3.
  for (const char* point : {"ckpt.part_written:3", "ckpt.shard_written:3", "ckpt.renamed:2"}) {
    INFO(point);
    const std::string name = std::string(point).substr(5, 4);
    Child child(f.args(name, 4, kFsdp), {{"BVTRAIN_CRASH_AT", point}});
    const Finished killed = child.wait();
    INFO(killed.err);
    CHECK(killed.code == 137);
    const Restored left = Checkpointer::load(f.dir / name);
    CHECK((left.step == 3 || (left.step == 1 && name != "rena")));
    f.train(name, 4, kFsdp);
    CHECK(repeatable_rows(f.dir / "whole") == repeatable_rows(f.dir / name));
    check_state(f.dir / "whole", f.dir / name, /*exact=*/true);
    CHECK(files_in(f.dir / name + "/ckpt") == std::vector<std::string>{"LAST", "step-3", "step-6"});
  }
}

TEST_CASE("a sharded run that stops early keeps the step that it is still saving") {
  const ShardedRuns f;
  // With a learning rate of 0 no step is better than step 0. Rank 0 sleeps before it commits step
  // 3; meanwhile the run stops early and saves the step again, to be kept.
  Child child(f.args("run", 2, "sharding_strategy=zero1",
                     {"--set", "lr=0.0", "--set", "keep_ckpt_steps=null", "--set",
                      "early_stop={metric: test/loss, patience_steps: 3}"}),
              {{"BVTRAIN_SLEEP_AT", "ckpt.manifest_written:2:2"}});
  const Finished finished = child.wait(kWatchdog);
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  CHECK(finished.err.find("[3] checkpoint kept: ") != std::string::npos);
  CHECK(exists(f.dir / "run/DONE"));
  CHECK(files_in(f.dir / "run/ckpt") == std::vector<std::string>{"LAST", "step-1", "step-3"});
  CHECK(files_in(f.dir / "run/ckpt/step-3").size() == 3);
  CHECK(Checkpointer::load(f.dir / "run").step == 3);
}

TEST_CASE(
    "a broken piece is noticed and the checkpoint before it is used; export and predict read "
    "pieces") {
  const ShardedRuns f;
  f.train("run", 2, kFsdp);
  const std::string step6 = f.dir / "run/ckpt/step-6/";
  const std::vector<std::string> exporting = {"export", "--workdir", f.dir / "run",  "--format",
                                              "npz",    "--output",  f.dir / "w.npz"};
  Finished exported = run(exporting);
  INFO(exported.err);
  REQUIRE(exported.code == 0);
  const NamedTensors weights = read_npz(f.dir / "w.npz");
  const Restored state = Checkpointer::load(f.dir / "run");
  CHECK(state.step == 6);
  CHECK(weights.at("params/head/kernel").equal(state.tensors.at("params/head/kernel")));
  const std::string name = "params/Transformer/encoderblock_1/MlpBlock_0/Dense_0/kernel";
  CHECK(weights.at(name).equal(state.tensors.at(name)));
  // Another run takes them as weights, sharded again: rank 0 reads them.
  const std::vector<std::string> still = {"--set", "lr=0.0", "--set", "wd=0.0"};
  f.train("fresh", 2, kFsdp, still);
  std::vector<std::string> sets = still;
  sets.insert(sets.end(), {"--set", "model_init=" + (f.dir / "w.npz"), "--set",
                           "model_load={dont_load: ['head/.*', '.*block_1/.*/Dense_0/kernel']}"});
  f.train("warm", 2, kFsdp, sets);
  const Restored fresh = Checkpointer::load(f.dir / "fresh"),
                 warm = Checkpointer::load(f.dir / "warm");
  int left_out = 0;
  for (const auto& [key, value] : weights) {
    if (!key.starts_with("params/")) continue;
    INFO(key);
    const bool out = key.starts_with("params/head/") || key == name;
    left_out += out;
    CHECK(warm.tensors.at(key).equal(out ? fresh.tensors.at(key) : value));
  }
  CHECK(left_out == 3);

  fs::remove(step6 + "state-00001-of-00002.safetensors");
  CHECK(Checkpointer::load(f.dir / "run").step == 3);
}

TEST_CASE("unsupported sharding is refused before anything is written") {
  const ShardedRuns f;
  const Finished finished =
      run(f.args("out", 2, "sharding_strategy=[['.*', 'shard_dim(\"data\", 0)']]"));
  CHECK(finished.code == 2);
  CHECK(finished.err.find(
            "sharding_strategy: 'shard_dim(\"data\", 0)': shard_dim is not supported") !=
        std::string::npos);
  const Finished mesh = run(f.args("out", 2, "mesh=[[data, 4]]"));
  CHECK(mesh.code == 2);
  CHECK(mesh.err.find("mesh: its sizes multiply to 4, but there are 2 processes") !=
        std::string::npos);
  CHECK_FALSE(exists(f.dir / "out"));
  const Finished stacked =
      f.train("scan", 2, kFsdp, {"--set", "model.scan=true", "--set", "total_steps=1"});
  CHECK(stacked.err.find("every rank holds all sharded parameters during a step") !=
        std::string::npos);
  // One process accepts any strategy, and shards nothing.
  f.train("alone", 1, kFsdp);
  CHECK(files_in(f.dir / "alone/ckpt/step-6") ==
        std::vector<std::string>{"manifest.json", "state-00000-of-00001.safetensors"});
}

}  // namespace bv::test
