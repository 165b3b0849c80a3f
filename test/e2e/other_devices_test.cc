// Ranks that compute on different devices or in different precisions, and a run that continues on
// another device.
#include "test/e2e/bad_input.h"
#include "test/support/sockets.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

const char* const kOtherDevicesConfig = R"(
seed: 3
num_classes: 10
total_steps: 4
precision: float32
ckpt_steps: 2
log_training_steps: 2
input:
  data: {name: digits, split: train}
  batch_size: 24
  pp: value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
model_name: cnn
model: {widths: [4], dense: 8}
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.003
)";

// LibTorch's and bvtrain's kernels then use no vector instructions beyond those of every CPU.
const std::pair<std::string, std::string> kBaseline = {"ATEN_CPU_CAPABILITY", "default"};

struct OtherDevicesRun {
  TempFolder dir;
  std::string config = dir / "c.yaml";
  OtherDevicesRun() { write(config, kOtherDevicesConfig); }
  std::vector<std::string> args(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"--config", config, "--workdir", dir / "w"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Starts one of two ranks.
  std::unique_ptr<Child> rank(const char* number, int port, const std::vector<std::string>& more,
                              bool baseline) const {
    Environment environment = {{"RANK", number},
                               {"WORLD_SIZE", "2"},
                               {"LOCAL_RANK", number},
                               {"LOCAL_WORLD_SIZE", "2"},
                               {"MASTER_ADDR", "127.0.0.1"},
                               {"MASTER_PORT", std::to_string(port)}};
    if (baseline) environment.push_back(kBaseline);
    return std::make_unique<Child>(args(more), environment);
  }
};

// Whether kernels use other instructions with kBaseline.
bool has_vectors() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

}  // namespace

TEST_CASE("ranks whose precision differs are refused") {
  const OtherDevicesRun f;
  const int port = free_port();
  const auto first = f.rank("0", port, {"--set", "precision=float32"}, /*baseline=*/false);
  const auto second = f.rank("1", port, {"--set", "precision=bf16"}, /*baseline=*/false);
  for (Child* child : {first.get(), second.get()}) {
    const Finished finished = child->wait();
    CHECK(finished.code == 2);
    CHECK(contains(finished.err, "precision: error: rank 1 has 'bf16', rank 0 has 'float32'\n"));
  }
}

TEST_CASE("a warning names ranks that round differently, and a resumed run says it is elsewhere") {
  if (!has_vectors()) return;
  const OtherDevicesRun f;
  const int port = free_port();
  const auto first = f.rank("0", port, {}, /*baseline=*/false);
  const auto second = f.rank("1", port, {}, /*baseline=*/true);
  const Finished other = second->wait(), finished = first->wait();
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  CHECK(other.code == 0);
  CHECK(contains(finished.err, " with AVX"));
  CHECK(contains(finished.err,
                 "': they may round differently, so the ranks' copies of the weights may "
                 "drift apart by rounding errors (docs/distributed.md)\n"));
  CHECK_FALSE(contains(other.err, "may round differently"));
  // They drift apart in the first step, which is no failure here, and is said once.
  const std::string drifted = "] the ranks' copies of the weights have drifted apart, because";
  const size_t said = finished.err.find(drifted);
  CHECK(said != std::string::npos);
  CHECK(finished.err.find(drifted, said + 1) == std::string::npos);
  CHECK_FALSE(contains(other.err, drifted));

  const std::string elsewhere = ": results may differ by rounding from those of a run that was not";
  const std::vector<std::string> longer = {"--devices", "cpu:2", "--accept-changes", "--set"};
  const auto go_on = [&](const char* steps, const Environment& environment) {
    std::vector<std::string> args = f.args(longer);
    args.emplace_back(steps);
    const Finished more = run(args, environment);
    INFO(more.err);
    CHECK(more.code == 0);
    CHECK_FALSE(contains(more.err, "may round differently"));
    return contains(more.err, elsewhere);
  };
  CHECK_FALSE(go_on("total_steps=6", {}));
  CHECK(go_on("total_steps=8", {kBaseline}));
}

}  // namespace bv::test
