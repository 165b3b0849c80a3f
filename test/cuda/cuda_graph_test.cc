// A step as a CUDA graph is bit-identical to one without.
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <catch2/catch.hpp>

#include "test/cuda/gpu_runs.h"

namespace bv::test {
namespace {

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
  if (!gpu()) return;
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
  if (!gpu()) return;
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

TEST_CASE("a step that cannot be recorded to its end is computed without a graph", "[gpu]") {
  if (!gpu()) return;
  Run plain(kSmallCnn, Precision::float32, kGpu, kAdam);
  Run graph(kSmallCnn, Precision::float32, kGpu, kAdam);
  CHECK(graph.step->use_graph(std::make_unique<FailingRecorder>()).empty());
  CHECK(graph.train(5) == plain.train(5));
  CHECK_FALSE(graph.step->repeats_graph());
  check_same_state(graph, plain);
}

TEST_CASE("a recording that CUDA ends leaves nothing behind", "[gpu]") {
  if (!gpu()) return;
  const auto recorder = cuda_graph_recorder(kGpu);
  const at::Tensor x = at::ones({1024}, at::TensorOptions(kGpu));
  recorder->run([&] { (x + 1).sum(); });
  CHECK_THROWS(recorder->record([&] { (x + 1).sum().item(); }));
  // Memory that another stream has used is given back as before.
  const c10::impl::VirtualGuardImpl device(c10::kCUDA);
  const c10::Stream other = device.getStreamFromGlobalPool(kGpu);
  const auto reserved = [] {
    return c10::getDeviceAllocator(c10::kCUDA)->getDeviceStats(0).reserved_bytes[0].current;
  };
  constexpr int64_t kBytes = 64 << 20;
  const int64_t before = reserved();
  for (int i = 0; i < 16; ++i) {
    const at::Tensor y = at::empty({kBytes}, at::TensorOptions(kGpu).dtype(at::kByte));
    device.recordDataPtrOnStream(y.storage().data_ptr(), other);
    device.synchronizeDevice(0);
  }
  CHECK(reserved() - before < 4 * kBytes);
  at::Tensor sum;
  const auto graph = recorder->record([&] { sum = (x + 1).sum(); });
  graph->replay();
  CHECK(sum.item<float>() == 2048);
}

}  // namespace
}  // namespace bv::test
