// What runs on a CUDA device is compared with the CPU. Without a device these cases are not run:
// the program says how many, and passes, or fails with BVTRAIN_REQUIRE_CUDA=1. docs/gpu.md tells
// what was run and seen.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <tuple>

#include "lib/config/load_config.h"
#include "lib/device/cuda.h"
#include "lib/device/device_graph.h"
#include "lib/device/pinned.h"
#include "lib/distributed/group.h"
#include "lib/input/image/device_images.h"
#include "lib/model/dropout.h"
#include "lib/model/stochastic_depth.h"
#include "lib/optim/fused.h"
#include "lib/optim/param_groups.h"
#include "lib/params/host_copies.h"
#include "lib/train/step.h"
#include "test/support/host_reads.h"
#include "test/support/sockets.h"

namespace bv::test {
namespace {

// BVTRAIN_TEST_DEVICE=cpu runs the tests on the CPU, to try the tests themselves.
bool on_cpu() {
  const char* device = std::getenv("BVTRAIN_TEST_DEVICE");
  return device && std::string_view(device) == "cpu";
}
const c10::Device kGpu = on_cpu() ? c10::Device(c10::kCPU) : c10::Device(c10::kCUDA, 0);
constexpr int64_t kClasses = 7, kSize = 32;

int g_not_run = 0;

// Returns why there is no device; "" if there is one.
const std::string& no_gpu() {
  static const std::string& why = *new std::string([] {
    try {
      open_cuda("[gpu]");
      count_cuda("[gpu]");
      use_cuda(0);
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  }());
  return why;
}

// Whether the case that asks can be run.
bool gpu() {
  if (on_cpu() || no_gpu().empty()) return true;
  const char* required = std::getenv("BVTRAIN_REQUIRE_CUDA");
  if (required && std::string_view(required) == "1") FAIL("not run: " << no_gpu());
  ++g_not_run;
  return false;
}

// Says at the end of the program what was not run.
const struct TellNotRun {
  ~TellNotRun() {
    if (g_not_run == 0) return;
    std::printf(
        "not run: %d checks that need a CUDA device (%s); BVTRAIN_REQUIRE_CUDA=1 makes them fail\n",
        g_not_run, no_gpu().c_str());
  }
} g_tell_not_run;

// The device of those cases that are worth running without a GPU too.
c10::Device here() { return on_cpu() || no_gpu().empty() ? kGpu : c10::Device(c10::kCPU); }

struct Case {
  std::string name, keys;
};

std::vector<Case> models() {
  return {{"vit", "{variant: mu/8, depth: 2, dropout: 0.1, head_zeroinit: false}"},
          {"vit",
           "{variant: mu/8, depth: 2, pool_type: map, posemb: sincos2d, scan: true, "
           "remat_policy: nothing_saveable}"},
          {"mlp_mixer",
           "{patch_size: [8, 8], num_blocks: 2, hidden_dim: 16, tokens_mlp_dim: 12, "
           "channels_mlp_dim: 24, stoch_depth: 0.5}"},
          {"bit", "{width: 0.5, depth: [2, 1]}"},
          {"bit_paper", "{width: 0.5, depth: [2, 1]}"},
          {"flexi_vit", "{variant: mu, patch_size: [8, 8], posemb_size: [3, 3], seqhw: 5}"},
          {"cnn", "{}"},
          {"resnet_cifar", "{width: 16}"},
          {"resnet_cifar",
           "{whitening: 8, widths: [16, 32], blocks: [0, 1], stage_convs: 2, identity_init: true}"},
          // 257 tokens: attention over few of them is repeatable with any kernel.
          {"vit", "{variant: mu/2, depth: 1, pool_type: tok, head_zeroinit: false}"}};
}

Batch batch_of(int64_t n) {
  const auto generator = at::detail::createCPUGenerator(1);
  const at::Tensor image = at::randn({n, kSize, kSize, 3}, generator, at::kFloat);
  const at::Tensor labels = at::one_hot(at::arange(n) % kClasses, kClasses).to(at::kFloat);
  return {{"image", image}, {"labels", labels}};
}

struct Run {
  Run(const Case& which, Precision precision, c10::Device device, const std::string& keys,
      Group& group = Group::single()) {
    model = Model::Registry::make(which.name, parse_config(which.keys, "m.yaml"), Place(),
                                  ModelEnv{kClasses, kSize, kSize, 3});
    task = Task::Registry::make("classify", Config(), {}, {.loss_name = "softmax_xent"});
    const Config config = parse_config(keys, "t.yaml");
    StepConfig options = read_step(config, *model, {.total_steps = 100});
    throw_problems(config);
    step = std::make_unique<TrainStep>(*model, *task, std::move(options), 3, precision, group,
                                       parameter_init(*model, 1, std::nullopt), device);
  }
  // Returns {loss, l2_grads, l2_params, l2_updates} of each step.
  std::vector<double> train(int64_t steps, int64_t batch_size = 8) {
    std::vector<double> all;
    for (int64_t i = step->count() + 1, end = i + steps; i < end; ++i) {
      const Batch batch = batch_of(batch_size);
      if (i == bad_step) batch.at("image").fill_(std::nan(""));
      step->run(i, batch, /*measure=*/true);
      for (const auto& [name, value] : step->measurements(i))
        if (!name.starts_with("global")) all.push_back(value);
    }
    return all;
  }
  int64_t bad_step = 0;  // gets images of NaN
  std::shared_ptr<Model> model;
  std::unique_ptr<Task> task;
  std::unique_ptr<TrainStep> step;
};

const std::string kAdam =
    "{optax_name: scale_by_adam, optax: {mu_dtype: bfloat16}, lr: 0.001, wd: 0.0001, "
    "grad_clip_norm: 1.0, mixup: {p: 0.2}, ema: {decay: 0.9}, schedule: {decay_type: cosine}}";

// The same with an eps that hides gradients which are zero but for roundings, as those of weights
// before a norm are. Adam would make full steps of them, in another direction on each device.
const std::string kSteadyAdam = [] {
  std::string keys = kAdam;
  return keys.replace(keys.find("mu_dtype"), 0, "eps: 0.1, ");
}();

void check_close(const std::vector<double>& a, const std::vector<double>& b, double bound) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    INFO("value " << i);
    CHECK(a[i] == Approx(b[i]).epsilon(bound));
  }
}

TEST_CASE("masks of dropout and stochastic depth have the CPU's bits", "[gpu]") {
  if (!gpu()) return;
  for (const int64_t first : {0, 3}) {
    Pass cpu, cuda;
    cpu.train = cuda.train = true;
    cpu.seed = cuda.seed = 5;
    cpu.step = cuda.step = 7;
    cpu.first_example = cuda.first_example = first;
    const at::Tensor x = at::ones({5, 7, 11});
    CHECK(dropout(x, 0.3, cpu).equal(dropout(x.to(kGpu), 0.3, cuda).cpu()));
    CHECK(stochastic_depth(x, 0.3, cpu).equal(stochastic_depth(x.to(kGpu), 0.3, cuda).cpu()));
    CHECK(dropout(x, 0.5, cpu).equal(dropout(x.to(kGpu), 0.5, cuda).cpu()));
  }
}

TEST_CASE("images that come as bytes are normalized and mixed as on the CPU", "[gpu]") {
  if (!gpu()) return;
  Normalization how{.low = {1, 2, 3}, .range = {255, 200, 150}, .scale = 2, .offset = -1};
  how.clip = true;
  std::tie(how.clip_min, how.clip_max) = std::pair(-0.9F, 0.9F);
  const auto generator = at::detail::createCPUGenerator(3);
  for (const int64_t side : {1, 33, 224}) {
    const at::Tensor bytes = at::randint(0, 256, {6, side, side, 3}, generator, at::kByte);
    const at::Tensor images = bytes.narrow(0, 1, 5), before = bytes.narrow(0, 0, 1);
    for (const bool mixes : {false, true}) {
      const at::Tensor shares = mixes ? mixup_shares(0.7) : at::Tensor();
      const at::Tensor expected = plain_device_images(images, how, shares, before);
      const at::Tensor seen =
          device_images(images.to(kGpu), how, mixes ? shares.to(kGpu) : shares, before.to(kGpu))
              .cpu();
      CHECK((seen - expected).abs().max().item<float>() < 1e-6);
    }
  }
}

TEST_CASE("sums of squares on a device", "[gpu]") {
  if (!gpu()) return;
  for (const int64_t n : {64, 6400, 64 * 100003}) {
    const at::Tensor x = at::randn({n}, at::detail::createCPUGenerator(2), at::kFloat);
    const double expected = square_sum(x).item<double>();
    CHECK(square_sum(x.to(kGpu)).item<double>() == Approx(expected).epsilon(1e-6));
  }
}

TEST_CASE("each model trains on a device as on the CPU", "[gpu]") {
  if (!gpu()) return;
  for (const Case& model : models()) {
    for (const Precision precision : {Precision::float32, Precision::bf16}) {
      INFO(model.name << " " << model.keys << (precision == Precision::bf16 ? " bf16" : ""));
      const double bound = precision == Precision::bf16 ? 3e-2 : 1e-3;
      check_close(Run(model, precision, kGpu, kSteadyAdam).train(3),
                  Run(model, precision, c10::kCPU, kSteadyAdam).train(3), bound);
    }
  }
}

const char* const kOptimizers[] = {
    "optax_name: scale_by_adam",
    "optax_name: scale_by_adam, optax: {nesterov: true}",
    "optax_name: scale_by_adam, optax: {nesterov: true, mu_dtype: bfloat16}",
    "optax_name: momentum_hp",
    "optax_name: momentum_hp, optax: {dtype: float32}",
    "optax_name: momentum_hp, optax: {nesterov: true}",
    "optax_name: sgd",
    "optax_name: trace, optax: {decay: 0.9, nesterov: true}",
    "optax_name: scale_by_adafactor, optax: {clipping_threshold: 1.0}",
    "optax_name: scale_by_adafactor, optax: {momentum: null}"};

TEST_CASE("each optimizer on a device", "[gpu]") {
  if (!gpu()) return;
  for (const char* keys : kOptimizers) {
    INFO(keys);
    const std::string all = fmt::format("{{{}, lr: 0.01, wd: 0.001, grad_clip_norm: 0.5}}", keys);
    check_close(Run(models()[0], Precision::float32, kGpu, all).train(3),
                Run(models()[0], Precision::float32, c10::kCPU, all).train(3), 1e-3);
  }
}

TEST_CASE("two runs on a device have the same bits", "[gpu]") {
  if (!gpu()) return;
  for (const Case& model : models()) {
    INFO(model.name);
    const auto first = Run(model, Precision::bf16, kGpu, kAdam).train(3);
    CHECK(first == Run(model, Precision::bf16, kGpu, kAdam).train(3));
  }
}

const Case kSmallCnn = {"cnn", "{widths: [4, 8], dense: 16, dropout: 0.2}"};

void check_same_state(const Run& a, const Run& b) {
  const NamedTensors want = b.step->state();
  for (const auto& [name, value] : a.step->state()) {
    INFO(name);
    CHECK(value.equal(want.at(name)));
  }
}

void check_graph(const Case& model, Precision precision, const std::string& keys) {
  INFO(model.name << " " << model.keys << " " << keys
                  << (precision == Precision::bf16 ? " bf16" : ""));
  Run plain(model, precision, kGpu, keys), graph(model, precision, kGpu, keys);
  CHECK(graph.step->use_graph(cuda_graph_recorder(kGpu)).empty());
  CHECK(graph.train(5) == plain.train(5));
  CHECK(graph.step->repeats_graph());
  check_same_state(graph, plain);
}

TEST_CASE("a step as a CUDA graph has the bits of one without", "[gpu]") {
  if (!gpu() || on_cpu()) return;
  bool even = false;
  for (const Case& model : models()) {
    even = !even;
    // An emulated GPU is slow.
    if (even || cuda_name(0) != "emulated GPU") check_graph(model, Precision::float32, kAdam);
    if (!even || cuda_name(0) != "emulated GPU") check_graph(model, Precision::bf16, kAdam);
  }
  for (const char* optimizer : kOptimizers) {
    for (const char* others :
         {"lr_mults: [['head.*', 2]], schedule: [['head.*', {decay_type: linear}], ['.*', "
          "{decay_type: cosine, warmup_steps: 3}]], grad_clip_norm: 0.5, ema: {decay: 0.99}",
          "nan: skip, nan_limit: 3, mixup: {p: 0.5}, ema: {decay: 0.5}"})
      check_graph(kSmallCnn, Precision::float32,
                  fmt::format("{{{}, lr: 0.01, wd: 0.001, {}}}", optimizer, others));
  }
}

TEST_CASE("graphs and batches of other sizes, steps that are skipped, and states that are loaded",
          "[gpu]") {
  if (!gpu() || on_cpu()) return;
  const std::string keys =
      "{optax_name: scale_by_adam, lr: 0.01, nan: skip, nan_limit: 3, mixup: {p: 0.5}, ema: "
      "{decay: "
      "0.5}}";
  for (const Case& model : {kSmallCnn, Case{"resnet_cifar", "{width: 8}"}}) {
    Run plain(model, Precision::float32, kGpu, keys), graph(model, Precision::float32, kGpu, keys);
    CHECK(graph.step->use_graph(cuda_graph_recorder(kGpu)).empty());
    plain.bad_step = graph.bad_step = 5;
    plain.train(5);
    graph.train(5);
    CHECK_THAT(graph.step->skipped(), Catch::StartsWith("the loss is nan"));
    check_same_state(graph, plain);
    CHECK(graph.train(2) == plain.train(2));
    CHECK(graph.train(5, /*batch_size=*/4) == plain.train(5, 4));  // another graph
    CHECK(graph.step->repeats_graph());
    check_same_state(graph, plain);
    const NamedTensors saved = plain.step->state();
    plain.train(2);
    graph.train(1);
    graph.step->load_state(saved);
    { const auto averages = graph.step->use_ema(); }
    graph.train(2);
    check_same_state(graph, plain);
  }
}

// Records the work and then fails.
class FailingRecorder : public GraphRecorder {
 public:
  void run(const std::function<void()>& work) override { recorder_->run(work); }
  std::unique_ptr<DeviceGraph> record(const std::function<void()>& work) override {
    return recorder_->record([&] {
      work();
      throw std::runtime_error("it cannot be recorded");
    });
  }

 private:
  const std::unique_ptr<GraphRecorder> recorder_ = cuda_graph_recorder(kGpu);
};

TEST_CASE("a step that cannot be recorded to its end is computed without a graph", "[gpu]") {
  if (!gpu() || on_cpu()) return;
  Run plain(kSmallCnn, Precision::float32, kGpu, kAdam);
  Run graph(kSmallCnn, Precision::float32, kGpu, kAdam);
  CHECK(graph.step->use_graph(std::make_unique<FailingRecorder>()).empty());
  CHECK(graph.train(5) == plain.train(5));
  CHECK_FALSE(graph.step->repeats_graph());
  check_same_state(graph, plain);
}

TEST_CASE("state goes to a checkpoint and back between devices", "[gpu]") {
  if (!gpu()) return;
  Run cuda(models()[0], Precision::float32, kGpu, kAdam);
  Run cpu(models()[0], Precision::float32, c10::kCPU, kAdam);
  cuda.train(2);
  const NamedTensors state = cuda.step->state();
  for (const auto& [name, value] : state) CHECK(value.is_cpu());
  cpu.step->load_state(state);
  for (const auto& [name, value] : cpu.step->state()) CHECK(value.equal(state.at(name)));
  check_close(cuda.train(1), cpu.train(1), 1e-3);
}

TEST_CASE("a snapshot keeps its values while training goes on", "[gpu]") {
  if (!gpu()) return;
  Run run(models()[0], Precision::float32, kGpu, kAdam);
  HostCopies copies;
  for (int round = 0; round < 3; ++round) {  // the later ones overwrite the memory of the first
    run.train(1);
    const NamedTensors state = run.step->state();
    const NamedTensors snapshot = run.step->state(nullptr, &copies);
    for (int64_t i = run.step->count() + 1, end = i + 5; i < end; ++i)
      run.step->run(i, batch_of(8), /*measure=*/false);
    copies.await();
    REQUIRE(snapshot.size() == state.size());
    for (const auto& [name, value] : snapshot) {
      CHECK(value.equal(state.at(name)));
      CHECK((on_cpu() || name == "opt/count" || value.is_pinned()));  // the count is on the host
    }
  }
}

TEST_CASE("page-locked memory has the size that was asked for", "[gpu]") {
  if (!gpu() || on_cpu()) return;
  const at::Tensor pinned = pinned_empty({3, 5 << 20}, at::kByte);
  CHECK(pinned.is_pinned());
  CHECK(pinned.is_contiguous());
  pinned.fill_(7);
  const at::Tensor there = pinned.to(kGpu, /*non_blocking=*/true);
  CHECK(there.eq(7).all().item<bool>());
  CHECK(pinned_empty({0, 4}, at::kFloat).numel() == 0);
}

// As the loader gives it to a step on a device: in pinned memory, from which copies need not wait.
Batch loaded_batch(int64_t n) {
  Batch batch = batch_of(n);
  if (!here().is_cpu())
    for (auto& [name, value] : batch) value = value.pin_memory();
  return batch;
}

TEST_CASE("a step that is not measured reads nothing back") {
  for (const Case& model : models()) {
    INFO(model.name);
    Run run(model, Precision::bf16, here(), kAdam);
    run.train(1);
    const Batch batch = loaded_batch(8);
    const HostReads reads;
    run.step->run(2, batch, /*measure=*/false);
    CHECK(reads.count() == 0);
  }
}

TEST_CASE("the counter of the test above sees copies from and to a device", "[gpu]") {
  if (!gpu() || on_cpu()) return;
  const at::Tensor host = at::ones({3}), device = host.to(kGpu), pinned = host.pin_memory();
  const auto reads_of = [](const auto& call) {
    const HostReads reads;
    call();
    return reads.count();
  };
  CHECK(reads_of([&] { device.cpu(); }) == 1);
  CHECK(reads_of([&] { host.to(kGpu, /*non_blocking=*/true); }) == 1);
  CHECK(reads_of([&] { pinned.to(kGpu, /*non_blocking=*/true); }) == 0);
  CHECK(reads_of([&] { device.clone(); }) == 0);
}

// This must be the last case: the group stays open until the end of the process.
TEST_CASE("every model trains over NCCL, or Gloo without a GPU, in a group of one") {
  RankLayout layout;
  layout.address = "127.0.0.1";
  layout.port = free_port();
  layout.token = "gpu";
  layout.hosts_store = true;
  GroupOptions options;
  if (!here().is_cpu()) options.cuda = 0;
  options.even_alone = true;
  const auto group = Group::join(layout, options);
  for (const Case& model : models()) {
    INFO(model.name);
    const auto alone = Run(model, Precision::float32, here(), kAdam).train(3);
    const int64_t before = group->counts().collectives;
    check_close(Run(model, Precision::float32, here(), kAdam, *group).train(3), alone, 1e-5);
    CHECK(group->counts().collectives > before);
    if (here().is_cpu()) continue;
    Run graph(model, Precision::float32, here(), kAdam, *group);
    CHECK(graph.step->use_graph(cuda_graph_recorder(kGpu)).empty());
    check_close(graph.train(3), alone, 1e-5);
    const int64_t recorded = group->counts().collectives;
    graph.train(1);
    const int64_t of_a_step = group->counts().collectives - recorded;
    CHECK(of_a_step > 1);
    graph.train(1);
    CHECK(group->counts().collectives == recorded + 2 * of_a_step);
  }
  if (!here().is_cpu()) {
    // What several ranks have begun cannot be taken back.
    Run graph(kSmallCnn, Precision::float32, here(), kAdam, *group);
    CHECK(graph.step->use_graph(std::make_unique<FailingRecorder>()).empty());
    CHECK_THROWS_WITH(graph.train(3),
                      "graph: error: step 3 cannot be recorded as a CUDA graph: it cannot be "
                      "recorded; `graph: off` records none");
  }
  group->finish();
}

}  // namespace
}  // namespace bv::test
