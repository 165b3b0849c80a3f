// Compares CUDA devices with the CPU. Without a device these cases are not run: the program prints
// their number, and passes, or fails with BVTRAIN_REQUIRE_CUDA=1. docs/gpu.md lists what was run on
// GPUs, and the results.
#include <catch2/catch.hpp>
#include <cstdio>
#include <tuple>

#include "lib/device/pinned.h"
#include "lib/evals/common/predict.h"
#include "lib/input/image/device_images.h"
#include "lib/model/dropout.h"
#include "lib/model/stochastic_depth.h"
#include "lib/optim/fused.h"
#include "lib/params/host_copies.h"
#include "test/cuda/gpu_runs.h"
#include "test/support/host_reads.h"

namespace bv::test {
namespace {

// Prints at the end of the program what was not run.
const struct TellNotRun {
  ~TellNotRun() {
    if (g_not_run == 0) return;
    std::printf(
        "not run: %d checks that need a CUDA device (%s); BVTRAIN_REQUIRE_CUDA=1 makes them fail\n",
        g_not_run, no_gpu().c_str());
  }
} g_tell_not_run;

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

TEST_CASE("labels outside 0 and 1 are refused before they go to the device", "[gpu]") {
  if (!gpu()) return;
  Run run(kSmallCnn, Precision::float32, kGpu, "{optax_name: sgd, lr: 0.1}", Group::single(),
          {.loss_name = "sigmoid_xent", .num_classes = kClasses}, "{multilabel: true}");
  run.step->run(1, batch_of(8), /*measure=*/true);
  Batch batch = batch_of(8);
  batch.at("labels")[3][2] = -1;  // "uncertain" in some data sets
  constexpr const char* kWhy = "[classify] with multilabel 'labels' must be within 0 and 1, got -1";
  CHECK_THROWS_WITH(run.step->run(2, batch, /*measure=*/true), Catch::Contains(kWhy));
  CHECK(run.step->count() == 1);
  CHECK_THROWS_WITH(bind_prediction(*run.task, "loss", *run.model, Precision::float32)(batch, {}),
                    Catch::Contains(kWhy));
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

TEST_CASE("each optimizer on a device", "[gpu]") {
  if (!gpu()) return;
  for (const char* keys : kOptimizers) {
    INFO(keys);
    const std::string all = fmt::format("{{{}, lr: 0.01, wd: 0.001, grad_clip_norm: 0.5}}", keys);
    const bool rounded = all.find("muon") != std::string::npos;  // products in bfloat16
    check_close(Run(models()[0], Precision::float32, kGpu, all).train(3),
                Run(models()[0], Precision::float32, c10::kCPU, all).train(3),
                rounded ? 1e-2 : 1e-3);
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
      CHECK((name == "opt/count" || value.is_pinned()));  // the count is on the host
    }
  }
}

TEST_CASE("pinned memory has the size that was asked for", "[gpu]") {
  if (!gpu()) return;
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
  if (!gpu()) return;
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

}  // namespace
}  // namespace bv::test
